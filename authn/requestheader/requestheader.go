package requestheader

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/x509"
)

// Errors of this package; test for them with errors.Is.
var (
	// ErrName means that the proxy's certificate is valid, but not of an allowed name.
	ErrName = errors.New("x509: subject is not in the allowed list")
	// ErrHeader means that Options name a header that cannot be one.
	ErrHeader = errors.New("empty header")
)

// Options say whom to believe, and in which headers. The zero value believes every proxy with a certificate of the
// authority, in upstream's usual headers.
type Options struct {
	// AllowedNames are the common names that the proxy's certificate may have; empty allows any.
	AllowedNames []string
	// UsernameHeaders and UIDHeaders hold the user's name and UID: the first that has a value counts. nil means
	// X-Remote-User and X-Remote-Uid.
	UsernameHeaders, UIDHeaders []string
	// GroupHeaders hold the user's groups: all values count. nil means X-Remote-Group.
	GroupHeaders []string
	// ExtraHeaderPrefixes are the beginnings of headers with further attributes, whose percent-encoded names follow. nil
	// means X-Remote-Extra-.
	ExtraHeaderPrefixes []string
}

func (o Options) orDefault() (Options, error) {
	for _, list := range []struct {
		of      *[]string
		usually string
	}{
		{&o.UsernameHeaders, "X-Remote-User"},
		{&o.UIDHeaders, "X-Remote-Uid"},
		{&o.GroupHeaders, "X-Remote-Group"},
		{&o.ExtraHeaderPrefixes, "X-Remote-Extra-"},
	} {
		if *list.of == nil {
			*list.of = []string{list.usually}
			continue
		}
		*list.of = slices.Clone(*list.of)
		for i, name := range *list.of {
			if (*list.of)[i] = strings.TrimSpace(name); (*list.of)[i] == "" {
				return o, fmt.Errorf("%w %q", ErrHeader, name)
			}
		}
	}
	return o, nil
}

// New returns an Authenticator that believes proxies with a certificate of one of the authorities.
func New(authorities x509.Authorities, o Options) (authn.Authenticator, error) {
	o, err := o.orDefault()
	if err != nil {
		return nil, err
	}
	proxies := x509.New(authorities)
	return authn.Func(func(r *http.Request) (*authn.Identity, error) {
		proxy, err := proxies.Authenticate(r)
		if err != nil {
			return nil, err
		}
		if len(o.AllowedNames) > 0 && !slices.Contains(o.AllowedNames, proxy.Name) {
			return nil, fmt.Errorf("%w: cn=%s", ErrName, proxy.Name)
		}
		return o.identity(r.Header)
	}), nil
}

// identity reads the headers.
func (o Options) identity(h http.Header) (*authn.Identity, error) {
	id := &authn.Identity{Name: first(h, o.UsernameHeaders), UID: first(h, o.UIDHeaders)}
	if id.Name == "" {
		return nil, authn.ErrNoCredentials
	}
	for _, name := range o.GroupHeaders {
		for _, group := range h.Values(name) {
			if group != "" {
				id.Groups = append(id.Groups, group)
			}
		}
	}
	for _, prefix := range o.ExtraHeaderPrefixes {
		for name, values := range h {
			if len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
				continue
			}
			key := strings.ToLower(name[len(prefix):])
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			if id.Extra == nil {
				id.Extra = map[string][]string{}
			}
			id.Extra[key] = append(id.Extra[key], values...)
		}
	}
	return id, nil
}

func first(h http.Header, names []string) string {
	found := ""
	for _, name := range names {
		found = cmp.Or(found, h.Get(name))
	}
	return found
}
