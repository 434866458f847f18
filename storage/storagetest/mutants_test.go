package storagetest_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/storagetest"
)

// failures runs the suite over a store that was broken on purpose, in a bubble: there, what never
// comes is waited for in no time, and nothing else is.
func failures(t *testing.T, broke func(*store)) (failed []storagetest.Failure) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		failed = storagetest.Failures(t, storagetest.Backend{
			Open: func(t testing.TB) storage.Store {
				s := newStore()
				broke(s)
				t.Cleanup(func() { _ = s.Store.Close() })
				return s
			},
			Forget: storagetest.ForgetByWriting(history),
		})
	})
	return failed
}

// The store that is broken below is in order as long as it is not, and so are others: what the
// contract leaves open is a backend's to choose.
func TestSound(t *testing.T) {
	for name, choose := range map[string]func(*store){
		"as it is": func(*store) {},
		"progress after every change": func(s *store) {
			s.events(func(events []storage.Event) []storage.Event {
				var more []storage.Event
				for _, e := range events {
					more = append(more, e, storage.Event{Type: storage.Progress, Revision: e.Revision})
				}
				return more
			})
		},
		"progress where it was asked for": func(s *store) { s.onDemand(false) },
		"one event at a time": func(s *store) {
			s.streams(func(stream storage.Stream) next {
				var rest []storage.Event
				return func(ctx context.Context) ([]storage.Event, error) {
					if len(rest) == 0 {
						events, err := stream.Next(ctx)
						if err != nil {
							return nil, err
						}
						rest = events
					} else if err := ctx.Err(); err != nil {
						return nil, err
					} else if _, err := s.Store.Revision(ctx); err != nil {
						return nil, err
					}
					first := rest[:1:1]
					rest = rest[1:]
					return first, nil
				}
			})
		},
		"what is refused is refused late": func(s *store) {
			s.delete = func(ctx context.Context, key string, expected int64) (int64, error) {
				time.Sleep(time.Microsecond)
				return s.Store.Delete(ctx, key, expected)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range failures(t, choose) {
				t.Error(f)
			}
		})
	}
}

// TestMutants breaks a store in every way that a sentence of the contract is about: the suite must
// refuse each, by the check that quotes the sentence at least.
func TestMutants(t *testing.T) {
	for _, group := range []map[string]mutant{brokenWrites(), brokenLists(), brokenStreams(), brokenProgress(), brokenOptions()} {
		for name, m := range group {
			t.Run(name, func(t *testing.T) {
				var failed []string
				for _, f := range failures(t, m.broke) {
					failed = append(failed, f.Check)
					if f.Sentence == "" || len(f.Messages) == 0 {
						t.Errorf("the failure of %s does not say enough: %+v", f.Check, f)
					}
				}
				if !slices.Contains(failed, m.by) {
					t.Errorf("refused by %q, want %s among them", failed, m.by)
				}
			})
		}
	}
}

// mutant is a way to break a store, and the check that must notice.
type mutant struct {
	by    string
	broke func(*store)
}

func brokenWrites() map[string]mutant {
	return map[string]mutant{
		"Create replaces": {"Create", func(s *store) {
			s.create = func(ctx context.Context, key string, value []byte) (int64, error) {
				if record, err := s.Store.Get(ctx, key); err == nil {
					return s.Store.Update(ctx, key, value, record.Revision)
				}
				return s.Store.Create(ctx, key, value)
			}
		}},
		"Update accepts any revision": {"Update", func(s *store) {
			s.update = func(ctx context.Context, key string, value []byte, _ int64) (int64, error) {
				record, err := s.Store.Get(ctx, key)
				if err != nil {
					return 0, err
				}
				return s.Store.Update(ctx, key, value, record.Revision)
			}
		}},
		"Update accepts older revisions": {"CompareAndSwap", func(s *store) {
			s.update = func(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
				record, err := s.Store.Get(ctx, key)
				if err != nil {
					return 0, err
				}
				if expected > 0 && expected < record.Revision {
					expected = record.Revision
				}
				return s.Store.Update(ctx, key, value, expected)
			}
		}},
		"Update looks and then leaps": {"Counter", func(s *store) {
			s.update = func(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
				for {
					record, err := s.Store.Get(ctx, key)
					if err != nil {
						return 0, err
					}
					if record.Revision == expected || expected == -2 {
						runtime.Gosched()
						time.Sleep(time.Microsecond)
						expected = -2 // whatever is there now
						if revision, err := s.Store.Update(ctx, key, value, record.Revision); !errors.Is(err, storage.ErrConflict) {
							return revision, err
						}
						continue
					}
					return 0, storage.ErrConflict
				}
			}
		}},
		"Update of the same value does nothing": {"Update", func(s *store) {
			s.update = func(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
				if record, err := s.Store.Get(ctx, key); err == nil && record.Revision == expected && bytes.Equal(record.Value, value) {
					return expected, nil
				}
				return s.Store.Update(ctx, key, value, expected)
			}
		}},
		"Update of nothing conflicts": {"Update", func(s *store) {
			s.update = func(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
				revision, err := s.Store.Update(ctx, key, value, expected)
				if errors.Is(err, storage.ErrNotFound) {
					err = storage.ErrConflict
				}
				return revision, err
			}
		}},
		"Delete accepts any revision": {"Delete", func(s *store) {
			s.delete = func(ctx context.Context, key string, _ int64) (int64, error) {
				record, err := s.Store.Get(ctx, key)
				if err != nil {
					return 0, err
				}
				return s.Store.Delete(ctx, key, record.Revision)
			}
		}},
		"Delete returns the record's revision": {"Delete", func(s *store) {
			s.delete = func(ctx context.Context, key string, expected int64) (int64, error) {
				_, err := s.Store.Delete(ctx, key, expected)
				return expected, err
			}
		}},
		"Delete of nothing succeeds": {"Delete", func(s *store) {
			s.delete = func(ctx context.Context, key string, expected int64) (int64, error) {
				revision, err := s.Store.Delete(ctx, key, expected)
				if errors.Is(err, storage.ErrNotFound) {
					return s.Store.Revision(ctx)
				}
				return revision, err
			}
		}},
		"the empty key is like another": {"RefusedWritesChangeNothing", func(s *store) {
			s.create = func(ctx context.Context, key string, value []byte) (int64, error) {
				return s.Store.Create(ctx, max(key, "\x00empty"), value)
			}
		}},
		"refused writes take a revision": {"RefusedWritesChangeNothing", func(s *store) {
			s.create = func(ctx context.Context, key string, value []byte) (int64, error) {
				revision, err := s.Store.Create(ctx, key, value)
				if errors.Is(err, storage.ErrExists) {
					_, _ = s.Store.Create(ctx, "/refused", nil)
				}
				return revision, err
			}
		}},
		"large values are cut": {"Limits", func(s *store) {
			s.create = func(ctx context.Context, key string, value []byte) (int64, error) {
				return s.Store.Create(ctx, key, value[:min(len(value), 1<<20-100)])
			}
		}},
		"large values are refused": {"Limits", func(s *store) {
			s.create = func(ctx context.Context, key string, value []byte) (int64, error) {
				if len(key)+len(value) >= 1<<20 {
					return 0, storage.ErrTooLarge
				}
				return s.Store.Create(ctx, key, value)
			}
		}},
		"keys end at a zero byte": {"KeysAndValues", func(s *store) {
			s.create = func(ctx context.Context, key string, value []byte) (int64, error) {
				if before, _, found := strings.Cut(key, "\x00"); found && before != "" {
					key = before
				}
				return s.Store.Create(ctx, key, value)
			}
		}},
		"Revision is what it was at the last call": {"ReadYourWrites", func(s *store) {
			var last atomic.Int64
			last.Store(1)
			s.revision = func(ctx context.Context) (int64, error) {
				now, err := s.Store.Revision(ctx)
				return last.Swap(now), err
			}
		}},
		"Revision lags": {"Revisions", func(s *store) {
			s.revision = func(ctx context.Context) (int64, error) {
				now, err := s.Store.Revision(ctx)
				return max(1, now-1), err
			}
		}},
		"reads after Close go on": {"StoreClose", func(s *store) {
			s.close = func() error { return nil }
		}},
		"Get shows what was before": {"ReadYourWrites", func(s *store) {
			s.get = func(ctx context.Context, key string) (storage.Record, error) {
				now, err := s.Store.Revision(ctx)
				if err != nil {
					return storage.Record{}, err
				}
				page, err := s.Store.List(ctx, key, storage.ListOptions{Revision: max(1, now-1), Limit: 1})
				if err != nil || len(page.Records) == 0 || page.Records[0].Key != key {
					return storage.Record{}, storage.ErrNotFound
				}
				return page.Records[0], nil
			}
		}},
	}
}

func brokenLists() map[string]mutant {
	return map[string]mutant{
		"List ignores the revision": {"ListAtRevision", func(s *store) {
			s.list = func(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
				o.Revision = 0
				return s.Store.List(ctx, prefix, o)
			}
		}},
		"List at a revision says it is the newest": {"ListPages", func(s *store) {
			s.pages(func(_ string, o storage.ListOptions, page *storage.Page) {
				page.Revision, _ = s.Store.Revision(context.Background())
			})
		}},
		"List shows newer values in older pages": {"ListPages", func(s *store) {
			s.pages(func(_ string, _ storage.ListOptions, page *storage.Page) {
				for i, r := range page.Records {
					if now, err := s.Store.Get(context.Background(), r.Key); err == nil {
						page.Records[i] = now
					}
				}
			})
		}},
		"List is not at one revision": {"ConcurrentModel", func(s *store) {
			s.list = func(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
				page, err := s.Store.List(ctx, prefix, o)
				if err != nil || o.Revision != 0 {
					return page, err
				}
				time.Sleep(time.Microsecond)
				later, err := s.Store.List(ctx, prefix, o)
				if err == nil && len(later.Records) == len(page.Records) {
					half := len(page.Records) / 2
					page.Records = append(page.Records[:half:half], later.Records[half:]...)
				}
				return page, err
			}
		}},
		"More is never said": {"ListPages", func(s *store) {
			s.pages(func(_ string, _ storage.ListOptions, page *storage.Page) { page.More = false })
		}},
		"More is said of a full page": {"ListPages", func(s *store) {
			s.pages(func(_ string, o storage.ListOptions, page *storage.Page) {
				page.More = o.Limit > 0 && len(page.Records) == o.Limit
			})
		}},
		"After includes the key": {"ListPages", func(s *store) {
			s.list = func(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
				if o.After != "" {
					o.After = o.After[:len(o.After)-1] + string([]byte{o.After[len(o.After)-1] - 1}) + "\xff\xff\xff"
				}
				return s.Store.List(ctx, prefix, o)
			}
		}},
		"a prefix is a directory": {"ListPrefix", func(s *store) {
			s.pages(func(prefix string, _ storage.ListOptions, page *storage.Page) {
				page.Records = slices.DeleteFunc(page.Records, func(r storage.Record) bool {
					rest := strings.TrimPrefix(r.Key, prefix)
					return prefix != "" && !strings.HasSuffix(prefix, "/") && rest != "" && rest[0] != '/'
				})
			})
		}},
		"List is in order of revision": {"ListPrefix", func(s *store) {
			s.pages(func(_ string, _ storage.ListOptions, page *storage.Page) {
				slices.SortFunc(page.Records, func(a, b storage.Record) int { return int(a.Revision - b.Revision) })
			})
		}},
		"List of what is forgotten is the newest": {"ListRefused", func(s *store) {
			s.list = func(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
				page, err := s.Store.List(ctx, prefix, o)
				if errors.Is(err, storage.ErrCompacted) {
					o.Revision = 0
					return s.Store.List(ctx, prefix, o)
				}
				return page, err
			}
		}},
		"List in the future is the newest": {"ListRefused", func(s *store) {
			s.list = func(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
				page, err := s.Store.List(ctx, prefix, o)
				if errors.Is(err, storage.ErrFutureRevision) {
					o.Revision = 0
					return s.Store.List(ctx, prefix, o)
				}
				return page, err
			}
		}},
		"List loses the last record": {"ListPrefix", func(s *store) {
			s.pages(func(_ string, _ storage.ListOptions, page *storage.Page) {
				if n := len(page.Records); n > 3 {
					page.Records = page.Records[:n-1]
				}
			})
		}},
		"List has a record's first revision": {"ListPrefix", func(s *store) {
			s.pages(func(_ string, _ storage.ListOptions, page *storage.Page) {
				for i := range page.Records {
					page.Records[i].Revision = 2
				}
			})
		}},
	}
}

func brokenStreams() map[string]mutant {
	var count atomic.Int64
	return map[string]mutant{
		"an event is lost": {"WatchFromAnyRevision", func(s *store) {
			s.each(func(*storage.Event) bool { return count.Add(1)%17 > 0 })
		}},
		"an event comes twice": {"WatchEvents", func(s *store) {
			s.events(func(events []storage.Event) []storage.Event {
				if n := len(events); n > 0 {
					events = append(events, events[n-1])
				}
				return events
			})
		}},
		"events are swapped": {"WatchEvents", func(s *store) {
			s.events(func(events []storage.Event) []storage.Event { slices.Reverse(events); return events })
		}},
		"events of one key alone are in order": {"WatchWhileWriting", func(s *store) {
			s.events(func(events []storage.Event) []storage.Event {
				slices.SortStableFunc(events, func(a, b storage.Event) int { return strings.Compare(a.Key, b.Key) })
				return events
			})
		}},
		"Prev is missing": {"WatchEvents", func(s *store) {
			s.each(func(e *storage.Event) bool { e.Prev = nil; return true })
		}},
		"Prev is the value": {"WatchEvents", func(s *store) {
			s.each(func(e *storage.Event) bool { e.Prev = e.Value; return true })
		}},
		"Prev of a create is empty": {"WatchEvents", func(s *store) {
			s.each(func(e *storage.Event) bool {
				if e.Type == storage.Put && e.Prev == nil {
					e.Prev = []byte{}
				}
				return true
			})
		}},
		"a Delete has the value": {"WatchEvents", func(s *store) {
			s.each(func(e *storage.Event) bool {
				if e.Type == storage.Delete {
					e.Value = e.Prev
				}
				return true
			})
		}},
		"an empty value is nil": {"WatchEvents", func(s *store) {
			s.each(func(e *storage.Event) bool {
				if len(e.Value) == 0 {
					e.Value = nil
				}
				return true
			})
		}},
		"an event has the batch's revision": {"WatchEvents", func(s *store) {
			s.events(func(events []storage.Event) []storage.Event {
				for i := range events {
					events[i].Revision = events[len(events)-1].Revision
				}
				return events
			})
		}},
		"foreign keys are told": {"WatchPrefix", func(s *store) {
			s.watch = func(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
				return s.watchAbove(ctx, prefix[:max(0, len(prefix)-1)], after)
			}
		}},
		"Watch includes the revision": {"WatchFromAnyRevision", func(s *store) {
			s.watch = func(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
				return s.watchAbove(ctx, prefix, max(after-1, min(after, 1)))
			}
		}},
		"Watch begins at the newest": {"WatchFromAnyRevision", func(s *store) {
			s.watch = func(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
				if stream, err := s.watchAbove(ctx, prefix, after); err != nil {
					return stream, err
				}
				now, err := s.Store.Revision(ctx)
				if err != nil {
					return nil, err
				}
				return s.watchAbove(ctx, prefix, now)
			}
		}},
		"Watch from what is forgotten begins at the newest": {"WatchRefused", func(s *store) {
			s.watch = func(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
				stream, err := s.watchAbove(ctx, prefix, after)
				if errors.Is(err, storage.ErrCompacted) {
					now, _ := s.Store.Revision(ctx)
					return s.watchAbove(ctx, prefix, now)
				}
				return stream, err
			}
		}},
		"Watch from the future begins at the newest": {"WatchRefused", func(s *store) {
			s.watch = func(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
				now, _ := s.Store.Revision(ctx)
				return s.watchAbove(ctx, prefix, min(after, max(now, 1)))
			}
		}},
		"a slow stream skips": {"WatchSlowReader", func(s *store) {
			s.watch = func(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
				stream, err := s.watchAbove(ctx, prefix, after)
				if err != nil {
					return nil, err
				}
				return &brokenStream{stream, func(ctx context.Context) ([]storage.Event, error) {
					events, err := stream.Next(ctx)
					if errors.Is(err, storage.ErrCompacted) {
						now, _ := s.Store.Revision(ctx)
						if stream, err = s.Store.Watch(ctx, prefix, now-1); err == nil {
							events, err = stream.Next(ctx)
						}
					}
					return events, err
				}}, nil
			}
		}},
		"a slow stream waits for ever": {"WatchSlowReader", func(s *store) {
			s.streams(func(stream storage.Stream) next {
				return func(ctx context.Context) ([]storage.Event, error) {
					events, err := stream.Next(ctx)
					if errors.Is(err, storage.ErrCompacted) {
						<-ctx.Done()
						err = ctx.Err()
					}
					return events, err
				}
			})
		}},
		"an ended context loses events": {"EndedContext", func(s *store) {
			s.streams(func(stream storage.Stream) next {
				lose := false
				return func(ctx context.Context) ([]storage.Event, error) {
					events, err := stream.Next(ctx)
					if lose && err == nil {
						events, err = stream.Next(ctx)
					}
					lose = errors.Is(err, context.Canceled)
					return events, err
				}
			})
		}},
		"an ended context ends the stream": {"WatchBlocks", func(s *store) {
			s.streams(func(stream storage.Stream) next {
				return func(ctx context.Context) ([]storage.Event, error) {
					events, err := stream.Next(ctx)
					if ctx.Err() != nil {
						stream.Close()
					}
					return events, err
				}
			})
		}},
		"Next does not hear of its context": {"WatchBlocks", func(s *store) {
			s.streams(func(stream storage.Stream) next {
				return func(ctx context.Context) ([]storage.Event, error) {
					ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
					defer cancel()
					return stream.Next(ctx)
				}
			})
		}},
		"Next returns without news": {"WatchEvents", func(s *store) {
			s.streams(func(stream storage.Stream) next {
				turn := false
				return func(ctx context.Context) ([]storage.Event, error) {
					if turn = !turn; turn {
						return nil, nil
					}
					return stream.Next(ctx)
				}
			})
		}},
		"a closed stream goes on": {"StreamClose", func(s *store) {
			watch := s.calls.watch
			s.calls.watch = func(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
				stream, err := watch(ctx, prefix, after)
				if err != nil {
					return nil, err
				}
				return &deafStream{stream}, nil
			}
		}},
		"two streams of a prefix share the changes": {"WatchWhileWriting", func(s *store) {
			var turn atomic.Int64
			s.each(func(*storage.Event) bool { return turn.Add(1)%2 == 0 })
		}},
	}
}

// deafStream does not close.
type deafStream struct{ storage.Stream }

func (deafStream) Close() {}

func brokenProgress() map[string]mutant {
	return map[string]mutant{
		"progress is never told": {"Progress", func(s *store) {
			s.each(func(e *storage.Event) bool { return e.Type != storage.Progress })
		}},
		"progress is told of the revision asked for, not of later ones": {"Progress", func(s *store) { s.onDemand(true) }},
		"progress is told too early": {"ProgressWhileWriting", func(s *store) {
			s.streams(func(stream storage.Stream) next {
				turn := false
				return func(ctx context.Context) ([]storage.Event, error) {
					events, err := stream.Next(ctx)
					if turn = !turn; turn && err == nil {
						now, _ := s.Store.Revision(ctx)
						events = append([]storage.Event{{Type: storage.Progress, Revision: now}}, events...)
					}
					return events, err
				}
			})
		}},
		"progress falls behind": {"Progress", func(s *store) {
			s.each(func(e *storage.Event) bool {
				if e.Type == storage.Progress {
					e.Revision--
				}
				return true
			})
		}},
		"progress goes back": {"Progress", func(s *store) {
			s.events(func(events []storage.Event) []storage.Event {
				if n := len(events); n > 0 && events[n-1].Type == storage.Progress {
					events = append(events, storage.Event{Type: storage.Progress, Revision: events[n-1].Revision - 1})
				}
				return events
			})
		}},
		"progress has a key": {"Progress", func(s *store) {
			s.each(func(e *storage.Event) bool {
				if e.Type == storage.Progress {
					e.Key = "/"
				}
				return true
			})
		}},
	}
}

func brokenOptions() map[string]mutant {
	return map[string]mutant{
		"Oldest is too old": {"Historian", func(s *store) {
			s.oldest = func(context.Context) (int64, error) { return 1, nil }
		}},
		"Oldest is too new": {"Historian", func(s *store) { s.oldest = s.Store.Revision }},
		"Compact does nothing": {"Compactor", func(s *store) {
			s.compact = func(context.Context, int64) error { return nil }
		}},
		"Compact takes the revision, too": {"Compactor", func(s *store) {
			s.compact = func(ctx context.Context, revision int64) error { return s.cut(ctx, revision+1) }
		}},
		"Compact of what is gone fails": {"Compactor", func(s *store) {
			s.compact = func(ctx context.Context, revision int64) error {
				s.mu.Lock()
				gone := revision <= s.floor
				s.mu.Unlock()
				if gone {
					return storage.ErrCompacted
				}
				return s.cut(ctx, revision)
			}
		}},
		"nothing expires": {"LessorExpires", func(s *store) { s.expire = func(string, int64, time.Duration) {} }},
		"records expire early": {"LessorExpires", func(s *store) {
			s.expire = func(key string, revision int64, ttl time.Duration) { s.expireAfter(key, revision, ttl/2) }
		}},
		"a plain Update keeps the time": {"LessorStays", func(s *store) {
			s.expire = func(key string, _ int64, ttl time.Duration) {
				time.AfterFunc(ttl, func() {
					if r, err := s.Store.Get(context.Background(), key); err == nil {
						_, _ = s.Store.Delete(context.Background(), key, r.Revision)
					}
				})
			}
		}},
		"expired records go silently": {"LessorExpires", func(s *store) {
			s.each(func(e *storage.Event) bool { return e.Type != storage.Delete })
		}},
		"everything is stale": {"Refresher", func(s *store) {
			s.stale = func(ctx context.Context, key string) (bool, error) {
				_, err := s.Store.Get(ctx, key)
				return true, err
			}
		}},
		"what is not there is not stale": {"Refresher", func(s *store) {
			s.stale = func(context.Context, string) (bool, error) { return false, nil }
		}},
	}
}
