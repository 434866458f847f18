// Package batch runs many requests of a controller: all at once, or in batches that grow as long as nothing fails.
//
// All functions are safe for concurrent use and wait for the goroutines they start. The errors are those of the calls.
package batch

import "sync"

// InParallel calls f with 0 to n-1, at most limit calls at a time (0: no limit), and returns their errors. With 1 the
// calls are made in order.
func InParallel(n, limit int, f func(int) error) []error {
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

// SlowStart calls f like InParallel, in batches of 1, 2, 4 and so on, and stops after a batch with errors: calls that
// cannot succeed, for instance for lack of quota, are tried once and not n times. It returns the number of calls and
// their errors.
func SlowStart(n, limit int, f func(int) error) (tried int, failed []error) {
	for size := 1; tried < n && len(failed) == 0; size *= 2 {
		first, count := tried, min(size, n-tried)
		for _, err := range InParallel(count, limit, func(i int) error { return f(first + i) }) {
			if err != nil {
				failed = append(failed, err)
			}
		}
		tried += count
	}
	return tried, failed
}
