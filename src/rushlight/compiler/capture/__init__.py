"""What a function does, found out by interpreting its first call, and what must hold for it to be done again.

Read interpreter.py first (bytecode), then capture.py. What is read becomes guards (reads.py, guards.py), operators become
graphs (recording.py), all else becomes steps (changes.py, steps.py) or decisions (decisions.py).
"""
