package inmemory_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/internal/inmemory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type who struct{}

func client(s *inmemory.Server, name string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return s.Dial(ctx, func(ctx context.Context) context.Context { return context.WithValue(ctx, who{}, name) })
	}}}
}

// TestServer: requests are served with what their connection attached, in virtual time.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inmemory.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.Context().Value(who{}).(string)+" from "+r.RemoteAddr+": "+string(body))
		}))
		defer s.Close()
		for _, name := range []string{"jane", "joe"} {
			answer, err := client(s, name).Post("http://anywhere/", "text/plain", strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(answer.Body)
			if want := name + " from in-process: hello"; err != nil || string(got) != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
			_ = answer.Body.Close()
		}
	})
}

// TestClose: closing a server ends its requests, also those that took their connections over, and waits for them.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		s := inmemory.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			<-r.Context().Done()
			time.Sleep(time.Minute)
			ended++
		}))
		conn, err := s.Dial(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.Close()
		s.Close()
		if ended != 1 {
			t.Error("a request outlives its server")
		}
		if _, err := s.Dial(t.Context(), nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed server is dialed: %v", err)
		}
	})
}

// TestUnused: closing a server that was never dialed ends nothing, and it cannot be dialed any more.
func TestUnused(t *testing.T) {
	s := inmemory.NewServer(http.NotFoundHandler())
	s.Close()
	if _, err := s.Dial(t.Context(), nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed server is dialed: %v", err)
	}
}

// TestHalfClose: an end that has sent everything still receives.
func TestHalfClose(t *testing.T) {
	a, b := inmemory.Pipe()
	go func() {
		text, err := io.ReadAll(b)
		if err != nil {
			t.Error(err)
		}
		_, _ = b.Write(append(text, " and back"...))
		_ = b.Close()
	}()
	if _, err := io.WriteString(a, "there"); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(a); err != nil || string(got) != "there and back" {
		t.Errorf("%q, %v", got, err)
	}
	_ = a.Close()
}

// TestDeadlines: each direction has its own, and one that was closed has none.
func TestDeadlines(t *testing.T) {
	a, b := inmemory.Pipe()
	defer func() { _ = b.Close() }()
	past, buffer := time.Unix(1, 0), make([]byte, 1)
	for name, c := range map[string]struct {
		set         func(time.Time) error
		read, write bool // whether it is over
	}{
		"read": {a.SetReadDeadline, true, false}, "write": {a.SetWriteDeadline, false, true}, "both": {a.SetDeadline, true, true},
	} {
		if err := c.set(past); err != nil {
			t.Fatal(err)
		}
		if c.read {
			if _, err := a.Read(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: read: %v", name, err)
			}
		}
		if c.write {
			if _, err := a.Write(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: write: %v", name, err)
			}
		}
		if err := a.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	_ = a.Close()
	for name, set := range map[string]func(time.Time) error{"read": a.SetReadDeadline, "write": a.SetWriteDeadline, "both": a.SetDeadline} {
		if err := set(past); err == nil {
			t.Errorf("%s: a closed connection has a deadline", name)
		}
	}
}

// TestDialEnds: nobody waits for a server longer than the context.
func TestDialEnds(t *testing.T) {
	s := inmemory.NewServer(http.NotFoundHandler())
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Dial(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("without time a server is dialed: %v", err)
	}
}
