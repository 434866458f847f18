package turns

// Len is how many things somebody works on or waits for.
func (t *Turns[K]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}
