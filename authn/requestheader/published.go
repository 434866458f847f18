package requestheader

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/x509"
)

// Namespace and Name are those of the ConfigMap in which an API server publishes how it authenticates its clients.
const (
	Namespace = "kube-system"
	Name      = "extension-apiserver-authentication"
)

// Keys of that ConfigMap.
const (
	keyProxies      = "requestheader-client-ca-file"
	keyUsers        = "client-ca-file"
	keyUsernames    = "requestheader-username-headers"
	keyUIDs         = "requestheader-uid-headers"
	keyGroups       = "requestheader-group-headers"
	keyExtra        = "requestheader-extra-headers-prefix"
	keyAllowedNames = "requestheader-allowed-names"
)

// ErrPublished means that published data cannot be used. The text names the key.
var ErrPublished = errors.New("malformed authentication configuration")

// Published returns the options, and the PEM of the authorities, as upstream's API server publishes them for other
// servers, in the ConfigMap extension-apiserver-authentication.
func (o Options) Published(authorities []byte) (map[string]string, error) {
	o, err := o.orDefault()
	if err != nil {
		return nil, err
	}
	data := map[string]string{keyProxies: string(authorities)}
	for key, list := range o.lists() {
		text, err := json.Marshal(append([]string{}, *list...))
		if err != nil {
			return nil, err
		}
		data[key] = string(text)
	}
	return data, nil
}

// lists are the options by their keys.
func (o *Options) lists() map[string]*[]string {
	return map[string]*[]string{
		keyUsernames: &o.UsernameHeaders, keyUIDs: &o.UIDHeaders, keyGroups: &o.GroupHeaders, keyExtra: &o.ExtraHeaderPrefixes,
		keyAllowedNames: &o.AllowedNames,
	}
}

// Parse reads what Published wrote: the options, none of which is nil, and the PEM of the authorities. Headers without a key
// are read from none. The error wraps ErrPublished.
func Parse(data map[string]string) (o Options, authorities []byte, err error) {
	for key, list := range o.lists() {
		var names []string
		if text := data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), &names); err != nil {
				return Options{}, nil, fmt.Errorf("%w: %s: %w", ErrPublished, key, err)
			}
		}
		*list = append([]string{}, names...) // nil would mean the usual ones
	}
	if data[keyProxies] == "" {
		return Options{}, nil, fmt.Errorf("%w: %s is missing", ErrPublished, keyProxies)
	}
	if o, err = o.orDefault(); err != nil {
		return Options{}, nil, fmt.Errorf("%w: %w", ErrPublished, err)
	}
	return o, []byte(data[keyProxies]), nil
}

// Follower authenticates as another API server publishes that it does: a proxy that shows its certificate says whose request it
// is, and users may show certificates of their own. It is for servers behind that server's aggregator. Before the first Set it
// believes nobody. The zero value is ready to use.
type Follower struct {
	now atomic.Pointer[authn.Authenticator]
}

// Set makes the Follower believe what the ConfigMap's data says, from the next request on. If they cannot be used, the last
// ones stay, and the error wraps ErrPublished. Without authorities of proxies, or of users, none of these are believed.
func (f *Follower) Set(data map[string]string) error {
	var all []authn.Authenticator
	if data[keyProxies] != "" {
		o, authorities, err := Parse(data)
		if err != nil {
			return err
		}
		pool, err := x509.Parse(authorities)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrPublished, keyProxies, err)
		}
		proxies, err := New(x509.Static{Roots: pool}, o)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrPublished, err)
		}
		all = append(all, proxies)
	}
	if users := data[keyUsers]; users != "" {
		pool, err := x509.Parse([]byte(users))
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrPublished, keyUsers, err)
		}
		all = append(all, x509.New(x509.Static{Roots: pool}))
	}
	a := authn.Union(all...)
	f.now.Store(&a)
	return nil
}

// Authenticate implements authn.Authenticator.
func (f *Follower) Authenticate(r *http.Request) (*authn.Identity, error) {
	a := f.now.Load()
	if a == nil {
		return nil, authn.ErrNoCredentials
	}
	return (*a).Authenticate(r)
}
