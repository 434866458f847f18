package tokenfile_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authn/tokenfile"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want map[string]*authn.Identity
		err  string
		log  string
	}{
		"empty":             {want: map[string]*authn.Identity{}},
		"three columns":     {in: "t1,ann,1\nt2,bob,2", want: map[string]*authn.Identity{"t1": {Name: "ann", UID: "1"}, "t2": {Name: "bob", UID: "2"}}},
		"groups":            {in: `t1,ann,1,"dev,ops"`, want: map[string]*authn.Identity{"t1": {Name: "ann", UID: "1", Groups: []string{"dev", "ops"}}}},
		"no groups":         {in: `t1,ann,1,`, want: map[string]*authn.Identity{"t1": {Name: "ann", UID: "1"}}},
		"more columns":      {in: `t1,ann,1,dev,ops`, want: map[string]*authn.Identity{"t1": {Name: "ann", UID: "1", Groups: []string{"dev"}}}},
		"empty token":       {in: ",ann,1\nt2,bob,2", want: map[string]*authn.Identity{"t2": {Name: "bob", UID: "2"}}, log: "empty token"},
		"last one counts":   {in: "t1,ann,1\nt1,bob,2", want: map[string]*authn.Identity{"t1": {Name: "bob", UID: "2"}}, log: "duplicate token"},
		"too few columns":   {in: "t1,ann,1\n\nt2,bob", err: "malformed token file: line 3 must have at least 3 columns (token, user name, user uid), found 2"},
		"a quote left open": {in: `t1,ann,"1`, err: `malformed token file: parse error on line 1, column 10: extraneous or missing " in quoted-field`},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			got, err := tokenfile.Parse(strings.NewReader(c.in), slog.New(slog.NewTextHandler(&log, nil)))
			if strings.Contains(log.String(), "t1") || err != nil && strings.Contains(err.Error(), "t1") {
				t.Errorf("the token is told: %v, %s", err, log.String())
			}
			if c.err != "" {
				if err == nil || err.Error() != c.err || !errors.Is(err, tokenfile.ErrMalformed) {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
			if !strings.Contains(log.String(), c.log) || c.log == "" && log.String() != "" {
				t.Errorf("logged %q, want %q", log.String(), c.log)
			}
		})
	}
	if _, err := tokenfile.Parse(iotest.ErrReader(io.ErrUnexpectedEOF), nil); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tokenfile.ErrMalformed) {
		t.Errorf("an unreadable file gives %v", err)
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func bearer(tok string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+tok)
	return r
}

func TestContract(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, path, `t1,ann,1,"dev,ops"`)
	file, err := tokenfile.Open(path, tokenfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	authntest.Run(t, token.New(file), authntest.Samples{
		Good: []authntest.Sample{{Request: bearer("t1"), Want: authn.Identity{Name: "ann", UID: "1", Groups: []string{"dev", "ops"}}}},
		Bad:  []*http.Request{bearer("t2"), bearer("ann")},
	})
}

func TestOpenFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	if _, err := tokenfile.Open(path, tokenfile.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write(t, path, "t1")
	if _, err := tokenfile.Open(path, tokenfile.Options{}); !errors.Is(err, tokenfile.ErrMalformed) || !strings.HasPrefix(err.Error(), path) {
		t.Errorf("a malformed file: %v", err)
	}
}

func TestRunReadsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, path, "t1,ann,1")
	synctest.Test(t, func(t *testing.T) {
		file, err := tokenfile.Open(path, tokenfile.Options{Interval: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- file.Run(ctx) }()
		whose := func(tok string) string {
			time.Sleep(61 * time.Second)
			id, err := file.Verify(ctx, tok)
			if err != nil {
				return err.Error()
			}
			return id.Name
		}
		if got := whose("t1"); got != "ann" {
			t.Errorf("t1 is %s", got)
		}
		write(t, path, "t2,bob,2")
		if got := whose("t2"); got != "bob" {
			t.Errorf("t2 is %s", got)
		}
		if _, err := file.Verify(ctx, "t1"); !errors.Is(err, authn.ErrNoCredentials) {
			t.Errorf("a token taken out of the file gives %v", err)
		}
		write(t, path, "broken")
		if got := whose("t2"); got != "bob" {
			t.Errorf("after a malformed file t2 is %s", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "t,u,i", `t,u,i,"a,b"`, "t,u\n", `"`, ",,,", "a,b,c\na,d,e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		tokens, err := tokenfile.Parse(strings.NewReader(in), nil)
		if err != nil {
			if !errors.Is(err, tokenfile.ErrMalformed) {
				t.Errorf("%q: %v", in, err)
			}
			return
		}
		for tok, id := range tokens {
			if tok == "" || id == nil {
				t.Errorf("%q: token %q of %v", in, tok, id)
			}
		}
	})
}
