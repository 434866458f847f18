package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/authn"
)

const (
	// askTimeout bounds one request of this server's own.
	askTimeout = 5 * time.Second
	// attempts is how many requests a check makes: a service may have an endpoint that does not answer.
	attempts = 5
)

// ErrAnswer means that a server's answer is not what it should be.
var ErrAnswer = errors.New("bad answer")

// Check finds out whether the APIService's server answers, as upstream does: one of five concurrent requests for the
// discovery of the version must succeed. The error, whose text is upstream's, says what the last one met.
func (a *Aggregator) Check(ctx context.Context, s *apiregistrationv1.APIService) error {
	results := make(chan error, attempts)
	for range attempts {
		go func() { results <- a.check(ctx, s) }()
	}
	var last error
	passed := false
	for range attempts {
		if err := <-results; err != nil {
			last = err
		} else {
			passed = true // the others are not cut off, which servers would complain of
		}
	}
	if passed {
		return nil
	}
	return last
}

func (a *Aggregator) check(ctx context.Context, s *apiregistrationv1.APIService) error {
	answer, err := a.ask(ctx, s, question{path: discoveryPath(s), as: masters()})
	var gone *unreachable
	switch {
	case errors.As(err, &gone):
		return gone.error
	case err != nil:
		return fmt.Errorf("failing or missing response from %s: %w", answer.url, err)
	case answer.code < http.StatusOK || answer.code >= http.StatusMultipleChoices:
		return fmt.Errorf("failing or missing response from %s: bad status from %s: %d", answer.url, answer.url, answer.code)
	}
	return nil
}

// masters is who upstream's aggregator is, so that it always has access.
func masters() *authn.Identity {
	return &authn.Identity{Name: "system:kube-aggregator", Groups: []string{authn.GroupMasters}}
}

// discoveryPath is a path that the APIService's server has to serve.
func discoveryPath(s *apiregistrationv1.APIService) string {
	if s.Spec.Group == "" {
		return "/api/" + s.Spec.Version
	}
	return "/apis/" + s.Spec.Group + "/" + s.Spec.Version
}

// question is a request of this server's own.
type question struct {
	path, accept string
	as           *authn.Identity
	reads        bool   // the body is wanted
	etag         string // of what is known, if anything is
}

// answer is what a server says to a question.
type answer struct {
	url    string
	code   int
	header http.Header
	body   []byte
}

// ask asks the APIService's server. The answer has at least the URL.
func (a *Aggregator) ask(ctx context.Context, s *apiregistrationv1.APIService, q question) (answer, error) {
	ctx, cancel := context.WithTimeout(authn.NewContext(ctx, q.as), askTimeout)
	defer cancel()
	t, address, err := a.reach(ctx, s, false)
	out := answer{url: "https://" + address + q.path}
	if err != nil {
		return out, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, out.url, nil)
	if err != nil {
		return out, err
	}
	if q.accept != "" {
		r.Header.Set("Accept", q.accept)
	}
	if q.etag != "" {
		r.Header.Set("If-None-Match", q.etag)
	}
	identify(r, q.as)
	client := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	out.code, out.header = resp.StatusCode, resp.Header
	if !q.reads {
		return out, nil
	}
	if out.body, err = io.ReadAll(io.LimitReader(resp.Body, a.options.MaxAnswer+1)); err != nil {
		return out, err
	}
	if int64(len(out.body)) > a.options.MaxAnswer {
		return out, fmt.Errorf("%w: %s is larger than %d bytes", ErrAnswer, q.path, a.options.MaxAnswer)
	}
	return out, nil
}
