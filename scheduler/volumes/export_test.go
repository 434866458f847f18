package volumes

// Kept returns how many objects, reservations and waiting calls a Volumes remembers.
func (v *Volumes) Kept() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.claims.kept() + v.volumes.kept() + len(v.reserved) + len(v.waiting)
}

func (a *ahead[T]) kept() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.assumed)
}
