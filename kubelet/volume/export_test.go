package volume

// SetStep lets a test see, and fail, every change that is made to the file system.
func (v *Volumes) SetStep(step func(op, path string) error) { v.disk.Step = step }

// Remembered is how many pods something is kept about.
func (v *Volumes) Remembered() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.pods)
}
