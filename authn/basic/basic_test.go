package basic_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/basic"
)

const secret = "hunter2"

func request(user, password string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(user, password)
	return r
}

func header(authorization string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", authorization)
	return r
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestContract(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.csv")
	write(t, path, secret+`,ann,1,"dev,ops"`+"\n"+`"with ""quotes"", commas: and colons",bob,2`)
	file, err := basic.Open(path, basic.Options{})
	if err != nil {
		t.Fatal(err)
	}
	authntest.Run(t, basic.New(file), authntest.Samples{
		Good: []authntest.Sample{
			{Request: request("ann", secret), Want: authn.Identity{Name: "ann", UID: "1", Groups: []string{"dev", "ops"}}},
			{Request: request("bob", `with "quotes", commas: and colons`), Want: authn.Identity{Name: "bob", UID: "2"}},
		},
		Bad:     []*http.Request{request("ann", "hunter"), request("ann", secret+"2"), request("ann", ""), request("", ""), request("carol", secret), request("ANN", secret)},
		Foreign: []*http.Request{header("Bearer " + secret), header("Basic"), header("Basic %%%"), header("Basic YW5u"), header("")},
	})
	if _, err := basic.New(file).Authenticate(request("ann", "guess")); !errors.Is(err, basic.ErrInvalid) || err.Error() != "invalid username/password combination" {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := basic.New(file).Authenticate(request("nobody", "guess")); err == nil || err.Error() != basic.ErrInvalid.Error() {
		t.Errorf("a wrong name must not be told from a wrong password: %v", err)
	}
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		in, err, log string
	}{
		"empty":               {},
		"three columns":       {in: secret + ",ann,1"},
		"more columns":        {in: secret + ",ann,1,dev,ops"},
		"last one counts":     {in: "old,ann,1\n" + secret + ",ann,1", log: "line=2 user=ann"},
		"too few columns":     {in: "x,ann,1\n\n" + secret + ",bob", err: "malformed password file: line 3 must have at least 3 columns (password, user name, user uid), found 2"},
		"only a password":     {in: secret, err: "malformed password file: line 1 must have at least 3 columns (password, user name, user uid), found 1"},
		"empty password":      {in: ",ann,1", err: "malformed password file: line 1 has an empty password"},
		"empty user":          {in: secret + ",,1", err: "malformed password file: line 1 has an empty user name"},
		"a quote left open":   {in: `"` + secret + `,ann,1`, err: `malformed password file: parse error on line 1, column 15: extraneous or missing " in quoted-field`},
		"a quote in a field":  {in: secret + `",ann,1`, err: `malformed password file: parse error on line 1, column 8: bare " in non-quoted-field`},
		"a record over lines": {in: "x,ann,1\n\"a\n" + secret + "\",bob", err: "malformed password file: line 2 must have at least 3 columns (password, user name, user uid), found 2"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			users, err := basic.Parse(strings.NewReader(c.in), slog.New(slog.NewTextHandler(&log, nil)))
			if strings.Contains(log.String(), secret) || err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the password is told: %v, %s", err, log.String())
			}
			if c.err != "" {
				if err == nil || err.Error() != c.err || !errors.Is(err, basic.ErrMalformed) {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || !strings.Contains(log.String(), c.log) || c.log == "" && log.String() != "" {
				t.Fatalf("error %v, log %q, want %q", err, log.String(), c.log)
			}
			if id, err := users.Verify(t.Context(), "ann", secret); c.in != "" && (err != nil || id.Name != "ann") {
				t.Errorf("ann: %v, %v", id, err)
			}
		})
	}
	if _, err := basic.Parse(iotest.ErrReader(io.ErrUnexpectedEOF), nil); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, basic.ErrMalformed) {
		t.Errorf("an unreadable file gives %v", err)
	}
}

// TestParseWithoutALog: nobody has to be told.
func TestParseWithoutALog(t *testing.T) {
	users, err := basic.Parse(strings.NewReader("old,ann,1,\n"+secret+",ann,1,"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := users.Verify(t.Context(), "ann", secret); err != nil || len(id.Groups) > 0 {
		t.Errorf("got %+v, %v; want ann without groups", id, err)
	}
}

func TestRunReadsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.csv")
	if _, err := basic.Open(path, basic.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write(t, path, "old,ann,1")
	synctest.Test(t, func(t *testing.T) {
		file, err := basic.Open(path, basic.Options{Interval: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- file.Run(ctx) }()
		for _, step := range []struct{ file, password string }{{"old,ann,1", "old"}, {"new,ann,1", "new"}, {"broken", "new"}} {
			write(t, path, step.file)
			time.Sleep(61 * time.Second)
			for _, password := range []string{"old", "new"} {
				if _, err := file.Verify(ctx, "ann", password); (err == nil) != (password == step.password) {
					t.Errorf("file %q, password %q: %v", step.file, password, err)
				}
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "p,u,i", `p,u,i,"a,b"`, "p,u\n", `"`, ",,,", "a,b,c\na,d,e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		users, err := basic.Parse(strings.NewReader(in), nil)
		if err != nil {
			if !errors.Is(err, basic.ErrMalformed) {
				t.Errorf("%q: %v", in, err)
			}
			return
		}
		for name, user := range users {
			if name == "" || user.Identity == nil || user.Identity.Name != name {
				t.Errorf("%q: user %q is %v", in, name, user.Identity)
			}
			if _, err := users.Verify(t.Context(), name, ""); err == nil {
				t.Errorf("%q: user %q needs no password", in, name)
			}
		}
	})
}
