package pki_test

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/pki"
)

func keep(t *testing.T, a *pki.Authority, s pki.Subject) pki.Pair {
	t.Helper()
	pair, err := a.Keep("x", s, year)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// TestKeepsWhatFits: a stored certificate is used again for just that subject.
func TestKeepsWhatFits(t *testing.T) {
	was := pki.Subject{Name: "x", Groups: []string{"a", "b"}, Hosts: []string{"one", "two", "127.0.0.1"}}
	for name, tt := range map[string]struct {
		change func(*pki.Subject)
		kept   bool
	}{
		"the same":         {func(*pki.Subject) {}, true},
		"in another order": {func(s *pki.Subject) { s.Groups, s.Hosts = []string{"b", "a"}, []string{"127.0.0.1", "two", "one"} }, true},
		"named twice":      {func(s *pki.Subject) { s.Hosts = append(s.Hosts, "one") }, true},
		"another name":     {func(s *pki.Subject) { s.Name = "y" }, false},
		"a group more":     {func(s *pki.Subject) { s.Groups = []string{"a", "b", "c"} }, false},
		"a group less":     {func(s *pki.Subject) { s.Groups = []string{"a"} }, false},
		"another group":    {func(s *pki.Subject) { s.Groups = []string{"a", "c"} }, false},
		"a host more":      {func(s *pki.Subject) { s.Hosts = append(s.Hosts, "three") }, false},
		"a host less":      {func(s *pki.Subject) { s.Hosts = []string{"one", "127.0.0.1"} }, false},
		"an address less":  {func(s *pki.Subject) { s.Hosts = []string{"one", "two"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := open(t, t.TempDir())
			first := keep(t, a, was)
			s := pki.Subject{Name: was.Name, Groups: append([]string{}, was.Groups...), Hosts: append([]string{}, was.Hosts...)}
			tt.change(&s)
			if kept := string(keep(t, a, s).Key) == string(first.Key); kept != tt.kept {
				t.Errorf("kept: %v", kept)
			}
		})
	}
}

// TestKeepsNothingOfAnother: a stored certificate that another authority signed is replaced, whatever it says.
func TestKeepsNothingOfAnother(t *testing.T) {
	s := pki.Subject{Name: "x", Groups: []string{"g"}, Hosts: []string{"h"}}
	dir, other := t.TempDir(), t.TempDir()
	first := keep(t, open(t, dir), s)
	open(t, other)
	for _, file := range []string{"ca.crt", "ca.key"} {
		if err := os.Rename(filepath.Join(other, file), filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, dir)
	next := keep(t, a, s)
	if string(next.Key) == string(first.Key) {
		t.Error("the other authority's certificate was kept")
	}
	if _, err := leaf(t, next, nil).Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: "h"}); err != nil {
		t.Error(err)
	}
}

// TestLeafEndsWithItsAuthority: nothing that an authority signs outlives it; then no client trusts it any more. What is
// kept to the end is not replaced over and over.
func TestLeafEndsWithItsAuthority(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, dir)
		end := time.Now().Add(10 * year).Truncate(time.Second)
		for _, step := range []struct {
			wait, life time.Duration
			end        time.Time
		}{
			{0, year, time.Now().Add(year).Truncate(time.Second)},
			{0, 20 * year, end},
			{9*year + year/2, year, end},
		} {
			time.Sleep(step.wait)
			pair, err := a.Issue(pki.Subject{Name: "x"}, step.life)
			if c := leaf(t, pair, err); !c.NotAfter.Equal(step.end) || !c.NotBefore.Equal(time.Now().Add(-5*time.Minute).Truncate(time.Second)) {
				t.Errorf("for %v: from %v to %v, want to %v", step.life, c.NotBefore, c.NotAfter, step.end)
			}
		}
		time.Sleep(year / 4)
		first := keep(t, a, pki.Subject{Name: "x"})
		time.Sleep(24 * time.Hour)
		if string(keep(t, a, pki.Subject{Name: "x"}).Key) != string(first.Key) {
			t.Error("it was replaced by one that lasts no longer")
		}
	})
}

// TestLeafIsNoAuthority: a pair of a certificate that may not sign, and its key, is no authority.
func TestLeafIsNoAuthority(t *testing.T) {
	dir := t.TempDir()
	pair, err := open(t, t.TempDir()).Issue(pki.Subject{Name: "x"}, year)
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{"ca.crt": pair.Certificate, "ca.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pki.Open(dir, "kubernetes"); !errors.Is(err, pki.ErrDamaged) || !strings.Contains(err.Error(), "is not an authority's certificate") {
		t.Error(err)
	}
}

// TestModes: nobody else reads a key, also not through a file that was there before.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "pki")
	a := open(t, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.key"), nil, 0o666); err != nil { //nolint:gosec // the danger to be shown
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "x.key"), 0o666); err != nil { //nolint:gosec // whatever the umask is
		t.Fatal(err)
	}
	keep(t, a, pki.Subject{Name: "x"})
	if info, err := os.Stat(filepath.Join(dir, "x.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", info.Mode(), err)
	}
}
