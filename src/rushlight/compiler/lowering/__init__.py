"""Graphs of operators below autograd as machine code.

Read lowering.py first: a graph becomes straight-line Python (straight_line.py). Elementwise calls become loops (fusion.py,
epilogues.py), and steps that follow each other become one native call (step_calls.py, call_lists.py).
"""
