package prober

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet"
)

// probeTransport trusts every certificate: a probe only checks whether the container answers, and sends it nothing
// secret.
func probeTransport() *http.Transport {
	return &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		DisableKeepAlives:   true,
		DisableCompression:  true,
		DialContext:         dial,
	}
}

// get runs an HTTP probe, and retries it if a response breaks off.
func (p *Prober) get(l limits, target kubelet.ProbeTarget) error {
	host, err := p.host(target, target.Probe.HTTPGet.Host)
	if err != nil {
		return unknown(err)
	}
	end := time.Now().Add(l.remain)
	for range attempts {
		var req *http.Request
		req, err = newRequest(target.Probe.HTTPGet, target.Container, host, "probe")
		if err != nil {
			return unknown(err)
		}
		ctx, stop := joined(l.ctx)
		client := &http.Client{Transport: p.transport, CheckRedirect: withinHost, Timeout: max(time.Until(end), 1)}
		var warning string
		warning, err = ask(client, req.WithContext(ctx))
		stop()
		if warning != "" {
			p.warn(target, warning)
		}
		var broken *Error
		if !errors.As(err, &broken) || !time.Now().Before(end) || l.ctx.Err() != nil {
			break
		}
	}
	return err
}

// ask sends a request and checks the response.
func ask(client *http.Client, req *http.Request) (warning string, err error) {
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return "", &Error{State: "failure", Err: err}
	}
	switch {
	case res.StatusCode < http.StatusOK || res.StatusCode >= http.StatusBadRequest:
		return "", fmt.Errorf("HTTP probe failed with statuscode: %d", res.StatusCode)
	case res.StatusCode >= http.StatusMultipleChoices:
		return "Probe terminated redirects, Response body: " + string(body), nil
	default:
		return "", nil
	}
}

// withinHost follows redirects only within the same host: a container must not make the kubelet call others.
func withinHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// newRequest makes the request of a probe or hook; its user agent names the purpose.
func newRequest(action *corev1.HTTPGetAction, c *corev1.Container, host, purpose string) (*http.Request, error) {
	scheme := strings.ToLower(string(action.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	port, err := containerPort(action.Port, c)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(action.Path)
	if err != nil {
		target = &url.URL{Path: action.Path} // not a URL, but it may still be a path
	}
	target.Scheme, target.Host = scheme, net.JoinHostPort(host, strconv.Itoa(port))
	req, err := http.NewRequest(http.MethodGet, target.String(), nil) //nolint:noctx // callers add it
	if err != nil {
		return nil, err
	}
	for _, h := range action.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header.Set("User-Agent", "kube-"+purpose+"/"+version)
	}
	if values, ok := req.Header["Accept"]; !ok {
		req.Header.Set("Accept", "*/*")
	} else if values[0] == "" {
		req.Header.Del("Accept")
	}
	req.Host = req.Header.Get("Host")
	return req, nil
}

// warn records an event for a response that counts as success but is unusual.
func (p *Prober) warn(target kubelet.ProbeTarget, output string) {
	if target.Pod == nil || target.Container == nil {
		return
	}
	kind := ""
	switch target.Probe {
	case target.Container.LivenessProbe:
		kind = "Liveness"
	case target.Container.ReadinessProbe:
		kind = "Readiness"
	case target.Container.StartupProbe:
		kind = "Startup"
	}
	p.recorder.Record(events.Event{
		Regarding: reference(target.Pod, target.Container), Type: corev1.EventTypeWarning,
		Reason: "ProbeWarning", Message: kind + " probe warning: " + output,
	})
}

// reference refers to a container of a pod, or to the pod if no container is given.
func reference(pod *corev1.Pod, c *corev1.Container) corev1.ObjectReference {
	ref := events.About(corev1.SchemeGroupVersion.WithKind("Pod"), pod)
	if c == nil {
		return ref
	}
	list := "containers"
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name {
			list = "initContainers"
		}
	}
	ref.FieldPath = "spec." + list + "{" + c.Name + "}"
	return ref
}
