// Package prometheus is a history of what containers have used, from a Prometheus server that scrapes kubelets
// (/metrics/cadvisor), for admission/initialresources.
package prometheus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission/initialresources"
)

// What goes wrong, besides what the transport says.
var (
	// ErrURL means that the address of the server is none.
	ErrURL = errors.New("the address of a Prometheus server must be an http or https URL")
	// ErrAnswer means that the server did not answer as its API says.
	ErrAnswer = errors.New("unexpected answer of the Prometheus server")
)

const (
	// step is how far measurements are apart. Those of a month are 720 of each container.
	step = time.Hour
	// window is over which the use of CPU is averaged.
	window = "5m"
	// maxAnswer bounds answers, in bytes.
	maxAnswer = 32 << 20
)

// Options of a History. The zero value is ready to use.
type Options struct {
	// Transport sends requests, with credentials if the server wants some; nil is http.DefaultTransport.
	Transport http.RoundTripper
}

// History is an initialresources.History. Make one with New. It is safe for concurrent use.
type History struct {
	at     *url.URL
	client *http.Client
}

// New returns the history of the server at an address, such as https://prometheus.monitoring.svc:9090. Its error is ErrURL.
func New(address string, o Options) (*History, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, ErrURL // without the text, which may have a password
	}
	if at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("%w, not %q", ErrURL, at.Redacted())
	}
	return &History{at.JoinPath("api", "v1", "query_range"), &http.Client{Transport: o.Transport}}, nil
}

// Usage implements initialresources.History. Measurements are an hour apart.
func (h *History) Usage(ctx context.Context, q initialresources.Query) (initialresources.Usage, error) {
	form := url.Values{
		"query": {expression(q)}, "step": {strconv.Itoa(int(step.Seconds()))},
		"start": {stamp(q.From)}, "end": {stamp(q.To)},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.at.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return initialresources.Usage{}, ErrURL
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := h.client.Do(r)
	if err != nil {
		return initialresources.Usage{}, unaddressed(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return initialresources.Usage{}, fmt.Errorf("reading the answer of the Prometheus server: %w", err)
	}
	if len(text) > maxAnswer {
		return initialresources.Usage{}, fmt.Errorf("%w: it is larger than %d bytes", ErrAnswer, maxAnswer)
	}
	values, err := read(resp.StatusCode, text)
	if err != nil {
		return initialresources.Usage{}, err
	}
	return initialresources.Percentile(values, q.Percentile), nil
}

// unaddressed leaves out the address, which may have a password.
func unaddressed(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Errorf("asking the Prometheus server: %w", err)
}

func stamp(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// expression is what to ask for: thousandths of a CPU, or bytes.
func expression(q initialresources.Query) string {
	image := q.Image
	if q.AnyTag {
		image = initialresources.Repository(image)
	}
	// Runtimes report images by their full names.
	pattern := regexp.QuoteMeta(image)
	switch host, _, found := strings.Cut(image, "/"); {
	case !found:
		pattern = "(docker[.]io/library/)?" + pattern
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		pattern = "(docker[.]io/)?" + pattern
	}
	if q.AnyTag {
		pattern += "([:@].*)?"
	}
	selector := `container!="",image=~` + strconv.Quote(pattern)
	if q.Namespace != "" {
		selector += ",namespace=" + strconv.Quote(q.Namespace)
	}
	if q.Resource == corev1.ResourceCPU {
		return "rate(container_cpu_usage_seconds_total{" + selector + "}[" + window + "]) * 1000"
	}
	return "container_memory_working_set_bytes{" + selector + "}"
}

// read returns the values in an answer.
func read(code int, text []byte) ([]int64, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []struct{ Values [][2]any }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%w: status %d, %w", ErrAnswer, code, err)
	}
	if answer.Status != "success" || answer.Data.ResultType != "matrix" {
		return nil, fmt.Errorf("%w: status %d: %s", ErrAnswer, code, cmp.Or(answer.Error, "no measurements in it"))
	}
	var values []int64
	for _, series := range answer.Data.Result {
		for _, v := range series.Values {
			text, ok := v[1].(string)
			number, err := strconv.ParseFloat(text, 64)
			if !ok || err != nil {
				return nil, fmt.Errorf("%w: %v is no number", ErrAnswer, v[1])
			}
			if number >= 0 && number < math.MaxInt64 { // not NaN, either
				values = append(values, int64(math.Ceil(number)))
			}
		}
	}
	return values, nil
}
