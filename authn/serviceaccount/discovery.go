package serviceaccount

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Paths at which an API server serves a Discovery.
const (
	ConfigPath = "/.well-known/openid-configuration"
	JWKSPath   = "/openid/v1/jwks"
)

// maxAge is how long clients may cache the discovery documents, in seconds. A new key must be published for that long
// before it signs.
const maxAge = 3600

// ErrDiscovery: the issuer or its key set has a URL that others could not use.
var ErrDiscovery = errors.New("service account issuer discovery is not possible")

// Discovery publishes how to verify tokens (OpenID Connect Discovery 1.0, as far as it concerns tokens).
type Discovery struct {
	issuer, jwksURI string
	keys            *Keys
}

// NewDiscovery returns the Discovery of an issuer. Its URL and that of its key set, usually the server's own address
// with JWKSPath, must be https URLs.
func NewDiscovery(issuer, jwksURI string, keys *Keys) (*Discovery, error) {
	u, err := url.Parse(issuer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDiscovery, err)
	case u.Scheme != "https":
		return nil, fmt.Errorf("%w: issuer URL must use https scheme, got: %s", ErrDiscovery, issuer)
	case u.RawQuery != "":
		return nil, fmt.Errorf("%w: issuer URL may not include a query, got: %s", ErrDiscovery, issuer)
	case u.Fragment != "":
		return nil, fmt.Errorf("%w: issuer URL may not include a fragment, got: %s", ErrDiscovery, issuer)
	}
	if u, err = url.Parse(jwksURI); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDiscovery, err)
	}
	if u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: jwksURI requires https scheme and a host, got: %s", ErrDiscovery, jwksURI)
	}
	return &Discovery{issuer: issuer, jwksURI: jwksURI, keys: keys}, nil
}

// Handlers returns the handlers of the Discovery, by path.
func (d *Discovery) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		ConfigPath: document{"application/json", d.config},
		JWKSPath:   document{"application/jwk-set+json", func() []byte { return d.keys.current.Load().jwks }},
	}
}

func (d *Discovery) config() []byte {
	var algorithms []string
	for _, k := range d.keys.current.Load().keys {
		algorithms = append(algorithms, string(k.alg))
	}
	slices.Sort(algorithms)
	data, _ := json.Marshal(struct { //nolint:errchkjson // strings always encode
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		SigningAlgs   []string `json:"id_token_signing_alg_values_supported"`
	}{d.issuer, d.jwksURI, []string{"id_token"}, []string{"public"}, slices.Compact(algorithms)})
	return data
}

// document serves the result of make.
type document struct {
	contentType string
	make        func() []byte
}

// ServeHTTP implements http.Handler.
func (d document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "405: Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	if !d.accepted(r.Header.Get("Accept")) {
		http.Error(w, "406: Not Acceptable\n\nAvailable representations: "+d.contentType, http.StatusNotAcceptable)
		return
	}
	w.Header().Set("Content-Type", d.contentType)
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", maxAge))
	_, _ = w.Write(d.make()) // the client is gone, which is not our error
}

// accepted parses an Accept header like upstream's router: by names, with only one wildcard.
func (d document) accepted(accept string) bool {
	if accept == "" {
		return true
	}
	for _, part := range strings.Split(accept, ",") {
		name, _, _ := strings.Cut(part, ";")
		if name = strings.TrimSpace(name); name == "*/*" || name == d.contentType {
			return true
		}
	}
	return false
}
