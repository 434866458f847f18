package trial

import "time"

// Hasten limits runs of usual length to d.
func (w *Workshop) Hasten(d time.Duration) { w.base = d }

// Dir is the temporary directory.
func (w *Workshop) Dir() string { return w.dir }
