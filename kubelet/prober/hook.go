package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet"
)

// hookTransport is for hooks, which have no timeout except the caller's.
func hookTransport() *http.Transport {
	return &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as for probes
		DisableKeepAlives: true,
		DialContext:       dial,
	}
}

// Hook calls the HTTP hook of a container; the target's Probe is not used. Any response is a success, whatever its
// status. If the server of an HTTPS hook speaks plain HTTP, the hook is called again over HTTP without its
// Authorization header, which is reported in an event. Only the context limits the duration.
func (p *Prober) Hook(ctx context.Context, target kubelet.ProbeTarget, action *corev1.HTTPGetAction) error {
	host, err := p.host(target, action.Host)
	if err != nil {
		return fmt.Errorf("failed to find networking container: %w", err)
	}
	req, err := newRequest(action, target.Container, host, "lifecycle")
	if err != nil {
		return err
	}
	ctx, stop := joined(ctx)
	defer stop()
	err = p.call(req.WithContext(ctx))
	if !isPlainHTTP(err) {
		return err
	}
	plain := req.Clone(ctx)
	plain.URL.Scheme = "http"
	plain.Header.Del("Authorization")
	if p.call(plain) != nil {
		return err
	}
	if target.Pod != nil {
		p.recorder.Record(events.Event{
			Regarding: reference(target.Pod, nil), Type: corev1.EventTypeWarning, Reason: "LifecycleHTTPFallback",
			Message: fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.URL.Host),
		})
	}
	return nil
}

// call sends a request and discards the response.
func (p *Prober) call(req *http.Request) error {
	res, err := p.hookClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.ContentLength <= maxBody {
		// Let the server finish its response; errors do not matter.
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxBody))
	}
	return nil
}

func isPlainHTTP(err error) bool {
	var failed *url.Error
	return errors.As(err, &failed) && strings.Contains(failed.Err.Error(), "server gave HTTP response to HTTPS client")
}
