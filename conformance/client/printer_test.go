package client

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

const printed = "../../client/printer/testdata"

// canned answers requests for some resources from files, like a server that has nothing else.
type canned struct{ next http.RoundTripper }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	m := regexp.MustCompile(`^/api/v1/(?:namespaces/[^/]+/)?(pods|configmaps|services|secrets)(/.+)?$`).FindStringSubmatch(r.URL.Path)
	if m == nil || r.Method != http.MethodGet {
		return c.next.RoundTrip(r)
	}
	name := m[1]
	if m[2] != "" {
		name = strings.TrimSuffix(name, "s")
	}
	if r.URL.Query().Get("watch") != "" {
		name += ".watch"
	}
	if strings.Contains(r.Header.Get("Accept"), "as=Table") {
		name += ".table"
	}
	data, err := os.ReadFile(name + ".json")
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)),
	}, nil
}

// The output of kubectl get for the files in testdata.
func TestPrinter(t *testing.T) {
	k := newKubectl(t)
	t.Chdir(printed)
	k.config.Transport = canned{k.config.Transport}
	golden(t, "answers.txt", answers(t, k, "commands.txt", quoted))
}
