package linear_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/linear"
	"github.com/keelson-dev/keelson/storage/memory"
)

// liar is a proxy that occasionally breaks a server's guarantees.
type liar struct {
	http.RoundTripper
	mu     sync.Mutex
	random *rand.Rand
	told   int
	answer func(*liar, *http.Request) (*http.Response, error)
	stale  map[string][]byte // an old answer to each read
	lines  func(yield func(string), line string, lie bool)
}

// now reports whether to tamper: from time to time, but not until something has happened.
func (l *liar) now() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told++
	return l.told > 10 && l.random.IntN(4) == 0
}

func (l *liar) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.answer != nil && r.URL.Query().Get("watch") == "" {
		return l.answer(l, r)
	}
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil || l.lines == nil || r.URL.Query().Get("watch") == "" {
		return resp, err
	}
	from, in := resp.Body, bufio.NewReader(resp.Body)
	out, to := io.Pipe()
	go func() {
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				to.CloseWithError(err)
				return
			}
			l.lines(func(s string) { _, _ = to.Write([]byte(s)) }, line, l.now())
		}
	}()
	resp.Body = both{out, from}
	return resp, nil
}

type both struct {
	*io.PipeReader
	from io.Closer
}

func (b both) Close() error { return errors.Join(b.PipeReader.Close(), b.from.Close()) }

// again returns old answers to reads.
func again(consistent bool, pick func(*http.Request) bool) func(*liar, *http.Request) (*http.Response, error) {
	return func(l *liar, r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet || !pick(r) || consistent != (r.URL.RawQuery == "") {
			return l.RoundTripper.RoundTrip(r)
		}
		resp, err := l.RoundTripper.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			return resp, err
		}
		data, _ := io.ReadAll(resp.Body)
		lie := l.now()
		l.mu.Lock()
		defer l.mu.Unlock()
		if old := l.stale[r.URL.String()]; lie && old != nil {
			data = old
		} else if l.random.IntN(3) == 0 || old == nil {
			l.stale[r.URL.String()] = data
		}
		resp.Body = io.NopCloser(bytes.NewReader(data))
		return resp, nil
	}
}

// lost acknowledges a write without forwarding it.
func lost(method string) func(*liar, *http.Request) (*http.Response, error) {
	return func(l *liar, r *http.Request) (*http.Response, error) {
		if r.Method != method || !l.now() {
			return l.RoundTripper.RoundTrip(r)
		}
		dry := r.Clone(r.Context())
		dry.URL.RawQuery = "dryRun=All"
		if r.Method == http.MethodDelete {
			dry.Body = io.NopCloser(strings.NewReader(`{"gracePeriodSeconds":0,"dryRun":["All"]}`))
		}
		return l.RoundTripper.RoundTrip(dry)
	}
}

// The checker detects broken guarantees.
func TestBrokenServers(t *testing.T) {
	one := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/configmaps/") }
	all := func(r *http.Request) bool { return !one(r) }
	// It does not tamper with the last writes, which the watchers must see.
	event := func(line string) bool {
		return !strings.Contains(line, `"BOOKMARK"`) && !strings.Contains(line, "fence")
	}
	for name, broken := range map[string]func() *liar{
		"stale get":  func() *liar { return &liar{answer: again(true, one)} },
		"stale list": func() *liar { return &liar{answer: again(true, all)} },
		"list not at its revision": func() *liar {
			return &liar{answer: func(l *liar, r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet && r.URL.Query().Get("resourceVersionMatch") == "Exact" && l.now() {
					r = r.Clone(r.Context())
					r.URL.RawQuery = ""
				}
				return l.RoundTripper.RoundTrip(r)
			}}
		},
		"lost create": func() *liar { return &liar{answer: lost(http.MethodPost)} },
		"lost update": func() *liar { return &liar{answer: lost(http.MethodPut)} },
		"lost patch":  func() *liar { return &liar{answer: lost(http.MethodPatch)} },
		"lost delete": func() *liar { return &liar{answer: lost(http.MethodDelete)} },
		"update without a condition": func() *liar {
			return &liar{answer: func(l *liar, r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPut {
					return l.RoundTripper.RoundTrip(r)
				}
				time.Sleep(time.Millisecond) // let others write, even on a single processor
				data, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(data))
				resp, err := l.RoundTripper.RoundTrip(r)
				if at := bytes.Index(data, []byte(`"resourceVersion":"`)); err == nil && resp.StatusCode == http.StatusConflict && at >= 0 {
					resp.Body.Close()
					end := bytes.IndexByte(data[at+19:], '"')
					data = append(data[:at:at], append([]byte(`"generateName":"`), data[at+19+end:]...)...)
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
					return l.RoundTripper.RoundTrip(r)
				}
				return resp, err
			}}
		},
		"refused though done": func() *liar {
			return &liar{answer: func(l *liar, r *http.Request) (*http.Response, error) {
				resp, err := l.RoundTripper.RoundTrip(r)
				if err == nil && r.Method == http.MethodPut && resp.StatusCode == http.StatusOK && l.now() {
					resp.StatusCode = http.StatusConflict
					resp.Body = io.NopCloser(strings.NewReader(`{"kind":"Status","reason":"Conflict","code":409}`))
				}
				return resp, err
			}}
		},
		"duplicated event": func() *liar {
			return &liar{lines: func(yield func(string), line string, lie bool) {
				yield(line)
				if lie && event(line) {
					yield(line)
				}
			}}
		},
		"skipped event": func() *liar {
			return &liar{lines: func(yield func(string), line string, lie bool) {
				if !lie || !event(line) {
					yield(line)
				}
			}}
		},
		"reordered events": func() *liar {
			var mu sync.Mutex // guards several streams
			var held string
			return &liar{lines: func(yield func(string), line string, lie bool) {
				mu.Lock()
				before := held
				if held = ""; before == "" && lie && event(line) {
					held = line
				}
				holds := held != ""
				mu.Unlock()
				if holds {
					return
				}
				yield(line)
				if before != "" {
					yield(before)
				}
			}}
		},
		"wrong transition": func() *liar {
			return &liar{lines: func(yield func(string), line string, lie bool) {
				if lie {
					line = strings.Replace(line, `{"type":"ADDED"`, `{"type":"MODIFIED"`, 1)
				}
				yield(line)
			}}
		},
		"overtaking bookmark": func() *liar {
			return &liar{lines: func(yield func(string), line string, lie bool) {
				if lie && event(line) {
					yield(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"` + revisionIn(line) + `"}}}` + "\n")
				}
				yield(line)
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New(memory.Options{})
			t.Cleanup(func() { _ = store.Close() })
			server := serve(t, store, 1)[0]
			l := broken()
			l.RoundTripper, l.random, l.stale = server, rand.New(rand.NewPCG(1, 1)), map[string][]byte{}
			o := linear.Options{Seed: 3}
			if l.lines != nil {
				o.Watchers = 2 // a few, so that lines are delivered one after the other
			}
			_, err := play(t, []http.RoundTripper{l}, 200, o)
			var v *linear.Violation
			if !errors.As(err, &v) {
				t.Fatalf("%v", err)
			}
			if err := v.Save(t.TempDir()); err != nil {
				t.Error(err)
			}
			t.Log(v.Problems[0])
		})
	}
}

func revisionIn(line string) string {
	_, after, _ := strings.Cut(line, `"resourceVersion":"`)
	revision, _, _ := strings.Cut(after, `"`)
	return revision
}

// Losing answers or requests violates nothing.
func TestLostAnswers(t *testing.T) {
	store := memory.New(memory.Options{})
	t.Cleanup(func() { _ = store.Close() })
	errLost := errors.New("the connection broke")
	l := &liar{RoundTripper: serve(t, store, 1)[0], random: rand.New(rand.NewPCG(1, 1))}
	l.answer = func(l *liar, r *http.Request) (*http.Response, error) {
		if l.now() {
			return nil, errLost
		}
		resp, err := l.RoundTripper.RoundTrip(r)
		if err == nil && l.now() {
			resp.Body.Close()
			return nil, errLost
		}
		return resp, err
	}
	r, err := play(t, []http.RoundTripper{l}, 200, linear.Options{Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	if r.Landed == 0 || r.Unknown < 2*r.Landed/3 || r.Unjudged > r.Watches/4 {
		t.Errorf("not what was to be tried: %+v", r)
	}
}
