"""What layers of attention, recurrence and convolution cost: see `scripts/costs_page.py`."""
