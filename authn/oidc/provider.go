package oidc

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

const (
	wellKnown = "/.well-known/openid-configuration"
	// maxAnswer is how large the answer of an issuer may be, in bytes.
	maxAnswer = 1 << 20
	// maxQuoted is how much of it an error quotes, in bytes.
	maxQuoted = 1024
	// patience is how long an issuer may take to answer.
	patience = 30 * time.Second
)

// newClient returns a client of the issuer, which trusts the authority or, without one, those of the system.
func newClient(authority string) (*http.Client, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
	if authority != "" {
		roots, err := pool(authority)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: t, Timeout: patience}, nil
}

// fetch returns what is at a URL, with the type of its content and the status of the answer.
func fetch(ctx context.Context, client *http.Client, url, bearer string) (body []byte, kind, status string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", "", err
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, "", "", err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, "", "", fmt.Errorf("unable to read response body: %w", err)
	case len(body) > maxAnswer:
		return nil, "", "", fmt.Errorf("unable to read response body: it is larger than %d bytes", maxAnswer)
	case response.StatusCode != http.StatusOK:
		return body, "", response.Status, fmt.Errorf("%s: %s", response.Status, quoted(body))
	}
	return body, response.Header.Get("Content-Type"), response.Status, nil
}

func quoted(body []byte) string {
	if len(body) > maxQuoted {
		return strings.ToValidUTF8(string(body[:maxQuoted]), "") + "..."
	}
	return string(body)
}

// decode decodes an issuer's answer.
func decode(body []byte, kind string, into any) error {
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	if media, _, failed := mime.ParseMediaType(kind); failed == nil && media == "application/json" {
		return fmt.Errorf("got Content-Type = application/json, but could not unmarshal as JSON: %w", err)
	}
	return fmt.Errorf("expected Content-Type = application/json, got %q: %w", kind, err)
}

var errNoKeys = errors.New("provider did not return JWKS URL")

// discover returns the URL of the issuer's keys. at is where its configuration is, if that is not below its own URL.
func discover(ctx context.Context, client *http.Client, issuer, at string) (string, error) {
	if at == "" {
		at = strings.TrimSuffix(issuer, "/") + wellKnown
	}
	body, kind, _, err := fetch(ctx, client, at, "")
	if err != nil {
		return "", err
	}
	var provider struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := decode(body, kind, &provider); err != nil {
		return "", fmt.Errorf("oidc: failed to decode provider discovery object: %w", err)
	}
	switch {
	case provider.Issuer != issuer:
		return "", fmt.Errorf("oidc: issuer did not match the issuer returned by provider, expected %q got %.200q", issuer, provider.Issuer)
	case provider.Keys == "":
		return "", errNoKeys
	}
	return provider.Keys, nil
}
