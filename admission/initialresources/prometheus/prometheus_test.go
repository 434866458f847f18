package prometheus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission/initialresources"
	"github.com/keelson-dev/keelson/admission/initialresources/historytest"
	"github.com/keelson-dev/keelson/admission/initialresources/prometheus"
)

// asked is the form of the expressions that are asked for; the labels are Go strings.
var asked = regexp.MustCompile(`^(rate\()?container_(cpu_usage_seconds_total|memory_working_set_bytes)\{container!="",image=~("(?:[^"\\]|\\.)*")(?:,namespace=("(?:[^"\\]|\\.)*"))?\}(?:\[5m\]\) \* 1000)?$`)

// answer answers as a Prometheus server that has scraped the samples, each from a container of its own.
func answer(samples []historytest.Sample, r *http.Request) (any, error) {
	form := asked.FindStringSubmatch(r.FormValue("query"))
	if form == nil || r.Method != http.MethodPost || r.URL.Path != "/prefix/api/v1/query_range" || r.FormValue("step") != "3600" {
		return nil, fmt.Errorf("%s %s: %v", r.Method, r.URL, r.Form)
	}
	image, err := strconv.Unquote(form[3])
	if err != nil {
		return nil, err
	}
	pattern, err := regexp.Compile("^(?:" + image + ")$")
	if err != nil {
		return nil, err
	}
	namespace := ""
	if form[4] != "" {
		if namespace, err = strconv.Unquote(form[4]); err != nil {
			return nil, err
		}
	}
	start, err1 := strconv.ParseFloat(r.FormValue("start"), 64)
	end, err2 := strconv.ParseFloat(r.FormValue("end"), 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	of := map[string]corev1.ResourceName{"cpu_usage_seconds_total": corev1.ResourceCPU, "memory_working_set_bytes": corev1.ResourceMemory}[form[2]]
	if (of == corev1.ResourceCPU) != (form[1] != "") {
		return nil, fmt.Errorf("a rate of memory, or none of CPU: %s", form[0])
	}
	result := []any{}
	for _, s := range samples {
		full := s.Image
		if !strings.Contains(full, "/") {
			full = "docker.io/library/" + full // as containerd reports it
		}
		at := float64(s.At.Unix())
		if s.Resource == of && pattern.MatchString(full) && (namespace == "" || s.Namespace == namespace) && at >= start && at <= end {
			result = append(result, map[string]any{"metric": map[string]string{}, "values": [][2]any{{at, strconv.FormatFloat(float64(s.Value)-0.25, 'f', -1, 64)}, {at, "NaN"}}})
		}
	}
	return map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}}, nil
}

func TestContract(t *testing.T) {
	historytest.Run(t, func(t testing.TB, samples []historytest.Sample) initialresources.History {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reply, err := answer(samples, r)
			if err != nil {
				t.Error(err)
			}
			if err := json.NewEncoder(w).Encode(reply); err != nil {
				t.Error(err)
			}
		}))
		t.Cleanup(server.Close)
		h, err := prometheus.New(server.URL+"/prefix", prometheus.Options{Transport: server.Client().Transport})
		if err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func query() initialresources.Query {
	return initialresources.Query{Resource: corev1.ResourceCPU, Image: "nginx", Percentile: 90, From: time.Unix(0, 0), To: time.Unix(3600, 0)}
}

// TestAnswers: what is no answer is an error that says what came.
func TestAnswers(t *testing.T) {
	for text, test := range map[string]struct {
		code int
		want string // empty if it is an answer
	}{
		`{"status":"success","data":{"resultType":"matrix","result":[]}}`:                                                       {200, ""},
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"-1"],[2,"+Inf"],[3,"NaN"],[4,"1e300"]]}]}}`: {200, ""},
		`{"status":"error","errorType":"bad_data","error":"parse error"}`:                                                       {400, "unexpected answer of the Prometheus server: status 400: parse error"},
		`{"status":"error","error":"too many","data":{"resultType":"matrix","result":[]}}`:                                      {200, "unexpected answer of the Prometheus server: status 200: too many"},
		`{"status":"success","data":{"resultType":"vector","result":[]}}`:                                                       {200, "unexpected answer of the Prometheus server: status 200: no measurements in it"},
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,2]]}]}}`:                                     {200, "unexpected answer of the Prometheus server: 2 is no number"},
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"x"]]}]}}`:                                   {200, "unexpected answer of the Prometheus server: x is no number"},
		`<html>`: {502, "unexpected answer of the Prometheus server: status 502, invalid character '<' looking for beginning of value"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.code)
			_, _ = io.WriteString(w, text)
		}))
		h, err := prometheus.New(server.URL, prometheus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		u, err := h.Usage(t.Context(), query())
		if got := fmt.Sprint(err); test.want == "" && (err != nil || u != initialresources.Usage{}) || test.want != "" && (got != test.want || !errors.Is(err, prometheus.ErrAnswer)) {
			t.Errorf("%s: %+v, %s", text, u, got)
		}
		server.Close()
	}
}

// serving returns a history of a server that answers with a text, and notes the expressions that it is asked for.
func serving(t *testing.T, text string, queries *[]string) *prometheus.History {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*queries = append(*queries, r.FormValue("query"))
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	h, err := prometheus.New(server.URL, prometheus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestNumbers: values are rounded up, and those that are no amounts are left out.
func TestNumbers(t *testing.T) {
	var queries []string
	h := serving(t, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"9223372036854775807"],[2,"1e300"],[3,"-0.5"]]},{"values":[[1,"4.2"],[2,"0"]]}]}}`, &queries)
	if u, err := h.Usage(t.Context(), query()); err != nil || u != (initialresources.Usage{Value: 5, Samples: 2}) {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestImages: an image of Docker's registry may be reported by its full name, and any other only as it is.
func TestImages(t *testing.T) {
	const none = `{"status":"success","data":{"resultType":"matrix","result":[]}}`
	for image, want := range map[string]string{
		"nginx:1.27":               `(docker[.]io/library/)?nginx:1\\.27`,
		"shop/cart:1":              `(docker[.]io/)?shop/cart:1`,
		"localhost/cart":           `localhost/cart`,
		"host:5000/cart":           `host:5000/cart`,
		"registry.example/a/b:1":   `registry\\.example/a/b:1`,
		"docker.io/library/nginx":  `docker\\.io/library/nginx`,
		"localhost.example/c@d:ef": `localhost\\.example/c@d:ef`,
	} {
		var queries []string
		h, q := serving(t, none, &queries), query()
		q.Image, q.Resource = image, corev1.ResourceMemory
		if _, err := h.Usage(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		q.AnyTag, q.Namespace, q.Resource = true, "ns", corev1.ResourceCPU
		if _, err := h.Usage(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(want, `:1\\.27`), ":1"), "@")
		if want := []string{
			`container_memory_working_set_bytes{container!="",image=~"` + want + `"}`,
			`rate(container_cpu_usage_seconds_total{container!="",image=~"` + name + `([:@].*)?",namespace="ns"}[5m]) * 1000`,
		}; !slices.Equal(queries, want) {
			t.Errorf("%s: asked for\n%s\nwant\n%s", image, strings.Join(queries, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestLargeAnswer: an answer is read up to a limit.
func TestLargeAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for line := strings.Repeat(" ", 1<<20); ; {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	h, err := prometheus.New(server.URL, prometheus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Usage(t.Context(), query()); !errors.Is(err, prometheus.ErrAnswer) || !strings.Contains(err.Error(), "larger than 33554432 bytes") {
		t.Error(err)
	}
}

// TestUnreachable: errors do not show the password in the server's address.
func TestUnreachable(t *testing.T) {
	h, err := prometheus.New("http://user:secret@127.0.0.1:1", prometheus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Usage(t.Context(), query()); err == nil || strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "asking the Prometheus server: ") {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Usage(ended, query()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, address := range []string{"", "prometheus:9090", "ftp://user:secret@a", "http://", "http://user:secret@\x7f", "/a"} {
		if _, err := prometheus.New(address, prometheus.Options{}); !errors.Is(err, prometheus.ErrURL) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func Example() {
	h, err := prometheus.New("https://prometheus.monitoring.svc:9090", prometheus.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := initialresources.New(h, initialresources.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Name())
	// Output: InitialResources
}
