package volume

// SetStep lets a test observe, and fail, every change to the file system.
func (v *Volumes) SetStep(step func(op, path string) error) { v.disk.Step = step }

// Remembered returns the number of pods with cached state.
func (v *Volumes) Remembered() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.pods)
}
