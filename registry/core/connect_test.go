package core_test

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func connection(t *testing.T, plural, name string) registry.Connect {
	t.Helper()
	c, ok := registrytest.Find(t, core.Kinds(core.Options{}), plural).Sub.Connects[name]
	if !ok {
		t.Fatalf("%s have no %s", plural, name)
	}
	return c
}

// TestParameters: the options of a connection are those in its query.
func TestParameters(t *testing.T) {
	since := metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC).Local())
	for name, tt := range map[string]struct {
		plural, sub, query, path string
		want                     runtime.Object
	}{
		"log of all": {"pods", "log", "", "", &corev1.PodLogOptions{Stream: new("All")}},
		"log": {"pods", "log", "container=c&follow=true&previous=1&timestamps&sinceSeconds=5&tailLines=6&limitBytes=7&insecureSkipTLSVerifyBackend=yes&stream=Stdout", "",
			&corev1.PodLogOptions{Container: "c", Follow: true, Previous: true, Timestamps: true, SinceSeconds: new(int64(5)), TailLines: new(int64(6)), LimitBytes: new(int64(7)),
				InsecureSkipTLSVerifyBackend: true, Stream: new("Stdout")}},
		"log since a time": {"pods", "log", "sinceTime=2030-01-02T03:04:05Z&stream=&follow=false&previous=0&timestamps=FALSE", "", &corev1.PodLogOptions{SinceTime: &since, Stream: new("")}},
		"exec": {"pods", "exec", "container=c&command=a&command=b&stdin=true&stdout=true&stderr=1&tty=true", "",
			&corev1.PodExecOptions{Container: "c", Command: []string{"a", "b"}, Stdin: true, Stdout: true, Stderr: true, TTY: true}},
		"exec of nothing":   {"pods", "exec", "", "", &corev1.PodExecOptions{}},
		"attach":            {"pods", "attach", "container=c&stdin=true&stdout=true&stderr=true&tty=true", "", &corev1.PodAttachOptions{Container: "c", Stdin: true, Stdout: true, Stderr: true, TTY: true}},
		"attach to nothing": {"pods", "attach", "stdin=false", "", &corev1.PodAttachOptions{}},
		"ports":             {"pods", "portforward", "ports=80&ports=81", "", &corev1.PodPortForwardOptions{Ports: []int32{80, 81}}},
		"no ports":          {"pods", "portforward", "", "", &corev1.PodPortForwardOptions{}},
		"proxy":             {"pods", "proxy", "path=x", "/y", &corev1.PodProxyOptions{Path: "/y"}},
		"proxy of a query":  {"pods", "proxy", "path=x", "", &corev1.PodProxyOptions{Path: "x"}},
		"service":           {"services", "proxy", "", "/y", &corev1.ServiceProxyOptions{Path: "/y"}},
		"node":              {"nodes", "proxy", "", "/y", &corev1.NodeProxyOptions{Path: "/y"}},
	} {
		q, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := connection(t, tt.plural, tt.sub).Parameters(q, tt.path)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
	if got, err := connection(t, "pods", "portforward").Parameters(url.Values{"ports": {"http"}}, ""); err == nil {
		t.Errorf("ports of a name: %+v", got)
	}
	for _, query := range []string{"tailLines=many", "sinceTime=yesterday", "sinceSeconds=x&sinceTime=2030-01-02T03:04:05Z", "limitBytes=1.5"} {
		q, _ := url.ParseQuery(query)
		if got, err := connection(t, "pods", "log").Parameters(q, ""); err == nil {
			t.Errorf("log with %s: %+v", query, got)
		}
	}
}

func TestConnections(t *testing.T) {
	for _, tt := range []struct {
		plural, sub string
		methods     []string
		below       bool
	}{
		{"pods", "log", []string{http.MethodGet}, false}, {"pods", "exec", []string{http.MethodGet, http.MethodPost}, false},
		{"pods", "attach", []string{http.MethodGet, http.MethodPost}, false}, {"pods", "portforward", []string{http.MethodGet, http.MethodPost}, false},
		{"pods", "proxy", []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}, true},
		{"services", "proxy", []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}, true},
		{"nodes", "proxy", []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}, true},
	} {
		c := connection(t, tt.plural, tt.sub)
		if !slices.Equal(c.Methods, tt.methods) || c.Below != tt.below {
			t.Errorf("%s/%s: %v, below %t", tt.plural, tt.sub, c.Methods, c.Below)
		}
	}
}

func TestLogOptions(t *testing.T) {
	now := metav1.Now()
	all := new(corev1.LogStreamAll)
	for name, tt := range map[string]struct {
		options corev1.PodLogOptions
		want    []string
	}{
		"all":        {corev1.PodLogOptions{Stream: all}, nil},
		"the least":  {corev1.PodLogOptions{Stream: all, TailLines: new(int64(0)), LimitBytes: new(int64(1)), SinceSeconds: new(int64(1))}, nil},
		"since then": {corev1.PodLogOptions{Stream: new("Stderr"), SinceTime: &now}, nil},
		"too little": {corev1.PodLogOptions{Stream: all, TailLines: new(int64(-1)), LimitBytes: new(int64(0)), SinceSeconds: new(int64(0))}, []string{
			"tailLines: Invalid value: -1: must be greater than or equal to 0", "limitBytes: Invalid value: 0: must be greater than 0", "sinceSeconds: Invalid value: 0: must be greater than 0"}},
		"since twice":       {corev1.PodLogOptions{Stream: all, SinceSeconds: new(int64(0)), SinceTime: &now}, []string{"[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"}},
		"no stream":         {corev1.PodLogOptions{TailLines: new(int64(1))}, []string{"stream: Required value: must be specified"}},
		"another stream":    {corev1.PodLogOptions{Stream: new("Both")}, []string{`stream: Unsupported value: "Both": supported values: "All", "Stderr", "Stdout"`}},
		"lines of a stream": {corev1.PodLogOptions{Stream: new("Stdout"), TailLines: new(int64(1))}, []string{"[]: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"}},
	} {
		var got []string
		for _, err := range connection(t, "pods", "log").Validate(&tt.options) {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
