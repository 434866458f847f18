package storagetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

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
