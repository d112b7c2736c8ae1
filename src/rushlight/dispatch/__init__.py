"""How an operator is declared, called and recorded."""
