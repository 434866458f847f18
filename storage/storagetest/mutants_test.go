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

// failures runs the suite over a store that was broken on purpose, in a bubble, where waiting for what never comes
// takes no time.
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

// The unbroken store passes, and so do others that use the freedom the contract leaves.
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

// TestMutants breaks a store in every way that a sentence of the contract forbids: the suite must refuse each, at least
// by the check that quotes the sentence.
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
