package devices

// Kept returns how many claims, reservations and waiting calls a Devices remembers.
func (d *Devices) Kept() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.written) + len(d.reserved) + len(d.waiting) + len(d.ledger.entries)
}
