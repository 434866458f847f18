package requestheader_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/requestheader"
)

// TestParse: what is published is read again, and what is malformed is refused by its key.
func TestParse(t *testing.T) {
	for name, o := range map[string]requestheader.Options{
		"usual": {}, "own": {AllowedNames: []string{"p"}, UsernameHeaders: []string{"U", "V"}, UIDHeaders: []string{}, GroupHeaders: []string{"G"}, ExtraHeaderPrefixes: []string{"E-"}},
	} {
		data, err := o.Published([]byte("pem"))
		if err != nil {
			t.Fatal(err)
		}
		got, authorities, err := requestheader.Parse(data)
		if err != nil || string(authorities) != "pem" {
			t.Errorf("%s: %s, %v", name, authorities, err)
		}
		if again, err := got.Published(authorities); err != nil || !maps.Equal(again, data) {
			t.Errorf("%s: %v became %v, %v", name, data, again, err)
		}
	}
	for name, test := range map[string]struct {
		data map[string]string
		want string
	}{
		"nothing":           {nil, "requestheader-client-ca-file is missing"},
		"no list":           {map[string]string{"requestheader-group-headers": "X", "requestheader-client-ca-file": "pem"}, "requestheader-group-headers: "},
		"an empty header":   {map[string]string{"requestheader-username-headers": `[""]`, "requestheader-client-ca-file": "pem"}, "empty header"},
		"names of no names": {map[string]string{"requestheader-allowed-names": `[1]`, "requestheader-client-ca-file": "pem"}, "requestheader-allowed-names: "},
	} {
		if _, _, err := requestheader.Parse(test.data); !errors.Is(err, requestheader.ErrPublished) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// TestFollower: a Follower believes what was set last, and nobody before.
func TestFollower(t *testing.T) {
	proxies, users, others := authority(t), authority(t), authority(t)
	f := &requestheader.Follower{}
	ann := http.Header{"X-Remote-User": {"ann"}}
	who := func(r *http.Request) string {
		id, err := f.Authenticate(r)
		if err != nil {
			return "!"
		}
		return id.Name
	}
	expect := func(what string, want string) {
		t.Helper()
		got := strings.Join([]string{
			who(from(t, proxies, "proxy", ann)), who(from(t, proxies, "eve", ann)), who(from(t, users, "bob", http.Header{})), who(from(t, others, "proxy", ann)),
		}, " ")
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	set := func(o requestheader.Options, change func(data map[string]string)) error {
		t.Helper()
		data, err := o.Published(proxies.PEM())
		if err != nil {
			t.Fatal(err)
		}
		data["client-ca-file"] = string(users.PEM())
		change(data)
		return f.Set(data)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	as := func(map[string]string) {}
	allowed := requestheader.Options{AllowedNames: []string{"proxy"}}
	expect("before", "! ! ! !")
	must(set(allowed, as))
	expect("set", "ann ! bob !")
	must(set(requestheader.Options{}, as))
	expect("all names", "ann ann bob !")
	must(set(allowed, func(data map[string]string) { delete(data, "client-ca-file") }))
	expect("proxies alone", "ann ! ! !")
	must(set(allowed, func(data map[string]string) { delete(data, "requestheader-client-ca-file") }))
	expect("users alone", "! ! bob !")
	must(set(allowed, func(data map[string]string) { data["requestheader-client-ca-file"] = string(others.PEM()) }))
	expect("other proxies", "! ! bob ann")
	for _, key := range []string{"requestheader-client-ca-file", "client-ca-file", "requestheader-allowed-names", "requestheader-username-headers"} {
		if err := set(allowed, func(data map[string]string) { data[key] = "x" }); !errors.Is(err, requestheader.ErrPublished) || !strings.Contains(fmt.Sprint(err), key) {
			t.Errorf("%s: %v", key, err)
		}
		expect("malformed "+key, "! ! bob ann")
	}
	must(set(allowed, func(data map[string]string) { delete(data, "requestheader-username-headers") }))
	expect("no headers for names", "! ! bob !")
	must(set(allowed, func(data map[string]string) { data["requestheader-username-headers"] = "null" }))
	expect("null headers for names", "! ! bob !")
	must(f.Set(nil))
	expect("nothing", "! ! ! !")
	if _, err := f.Authenticate(from(t, proxies, "proxy", ann)); !errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("nothing: %v", err)
	}
}

// TestContract: a Follower, and what it follows, are Authenticators.
func TestContract(t *testing.T) {
	proxies := authority(t)
	f := &requestheader.Follower{}
	data, err := requestheader.Options{}.Published(proxies.PEM())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Set(data); err != nil {
		t.Fatal(err)
	}
	authntest.Run(t, f, authntest.Samples{
		Good: []authntest.Sample{{
			Request: from(t, proxies, "proxy", http.Header{"X-Remote-User": {"ann"}, "X-Remote-Group": {"g"}}),
			Want:    authn.Identity{Name: "ann", Groups: []string{"g"}},
		}},
		Bad:     []*http.Request{from(t, authority(t), "proxy", http.Header{"X-Remote-User": {"ann"}})},
		Foreign: []*http.Request{from(t, nil, "", http.Header{"X-Remote-User": {"ann"}})},
	})
}

// TestPublishedNothing: options of which no authenticator can be made are not published.
func TestPublishedNothing(t *testing.T) {
	if data, err := (requestheader.Options{GroupHeaders: []string{" "}}).Published(nil); !errors.Is(err, requestheader.ErrHeader) || data != nil {
		t.Errorf("%v, %v", data, err)
	}
}
