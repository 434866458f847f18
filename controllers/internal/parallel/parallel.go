// Package parallel makes many requests at once.
package parallel

import "sync"

// Each calls f with 0 to n-1, at most limit calls at a time (0: no limit), and returns their errors.
func Each(n, limit int, f func(int) error) []error {
	errs := make([]error, n)
	if limit == 1 {
		for i := range n {
			errs[i] = f(i)
		}
		return errs
	}
	if limit <= 0 {
		limit = n
	}
	var (
		calls sync.WaitGroup
		slots = make(chan struct{}, limit)
	)
	for i := range n {
		slots <- struct{}{}
		calls.Go(func() {
			errs[i] = f(i)
			<-slots
		})
	}
	calls.Wait()
	return errs
}
