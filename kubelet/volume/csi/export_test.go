package csi

import "time"

// Age makes a volume one that was published longer ago.
func (d *Drivers) Age(dir string, by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.mounted[dir]
	known.at = known.at.Add(-by)
	d.mounted[dir] = known
}
