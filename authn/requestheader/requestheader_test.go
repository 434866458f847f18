package requestheader_test

import (
	"crypto/tls"
	stdx509 "crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/requestheader"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/pki"
)

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.New("front-proxy-ca")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// from makes a request over a connection with a certificate of that name.
func from(t *testing.T, a *pki.Authority, name string, header http.Header) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/api", nil)
	r.Header = header
	if a == nil {
		return r
	}
	pair, err := a.Issue(pki.Subject{Name: name}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*stdx509.Certificate{c.Leaf}}
	return r
}

func TestHeaders(t *testing.T) {
	trusted, other := authority(t), authority(t)
	ann := http.Header{
		"X-Remote-User": {"ann"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"a", "", "b"}, "X-Remote-Extra-Example.com%2fscope": {"x", "y"},
		"X-Remote-Extra-%zz": {"z"},
	}
	const asAnn = "ann 7 [a b] map[%zz:[z] example.com/scope:[x y]]"
	allowed := requestheader.Options{AllowedNames: []string{"front-proxy-client"}}
	own := requestheader.Options{UsernameHeaders: []string{" None ", "My-User"}, GroupHeaders: []string{"My-Group", "X-Remote-Group"}, UIDHeaders: []string{}, ExtraHeaderPrefixes: []string{}}
	for name, test := range map[string]struct {
		options requestheader.Options
		r       *http.Request
		want    string
		err     error
	}{
		"a proxy":                    {r: from(t, trusted, "anybody", ann), want: asAnn},
		"an allowed proxy":           {options: allowed, r: from(t, trusted, "front-proxy-client", ann), want: asAnn},
		"another name":               {options: allowed, r: from(t, trusted, "eve", ann), err: requestheader.ErrName},
		"no certificate":             {r: from(t, nil, "", ann), err: authn.ErrNoCredentials},
		"no user":                    {r: from(t, trusted, "p", http.Header{"X-Remote-Group": {"system:masters"}}), err: authn.ErrNoCredentials},
		"another authority":          {r: from(t, other, "front-proxy-client", ann), err: new(x509.Error)},
		"other headers":              {options: own, r: from(t, trusted, "p", http.Header{"My-User": {"bob"}, "X-Remote-User": {"ann"}, "My-Group": {"m"}, "X-Remote-Group": {"g"}, "X-Remote-Uid": {"7"}, "X-Remote-Extra-A": {"b"}}), want: "bob  [m g] map[]"},
		"headers that are not these": {options: own, r: from(t, trusted, "p", ann), err: authn.ErrNoCredentials},
	} {
		auth, err := requestheader.New(x509.Static{Roots: trusted.Pool()}, test.options)
		if err != nil {
			t.Fatal(err)
		}
		id, err := auth.Authenticate(test.r)
		var unverified *x509.Error
		switch {
		case test.err == nil && (err != nil || fmt.Sprint(id.Name, " ", id.UID, " ", id.Groups, " ", id.Extra) != test.want):
			t.Errorf("%s: %v, %v", name, id, err)
		case errors.As(test.err, &unverified):
			if !errors.As(err, &unverified) {
				t.Errorf("%s: %v, %v", name, id, err)
			}
		case test.err != nil && !errors.Is(err, test.err):
			t.Errorf("%s: %v, %v", name, id, err)
		}
	}
	if _, err := requestheader.New(x509.Static{}, requestheader.Options{GroupHeaders: []string{" "}}); !errors.Is(err, requestheader.ErrHeader) {
		t.Errorf("an empty header: %v", err)
	}
}

func TestPublished(t *testing.T) {
	got, err := requestheader.Options{AllowedNames: []string{"front-proxy-client"}}.Published([]byte("pem"))
	want := map[string]string{
		"requestheader-allowed-names": `["front-proxy-client"]`, "requestheader-client-ca-file": "pem",
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
		"requestheader-uid-headers": `["X-Remote-Uid"]`, "requestheader-username-headers": `["X-Remote-User"]`,
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, _ := (requestheader.Options{}).Published(nil); got["requestheader-allowed-names"] != "[]" {
		t.Errorf("without names: %v", got)
	}
}
