package customresources_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/internal/provider"
)

// BenchmarkObjects measures requests for custom objects of 2 kB, of a kind with a schema as large as a provider's: in
// process, so that the client takes next to nothing. kB/object is the heap for each object that the iterations of create left
// behind, with what the server keeps of recent changes and encodings.
func BenchmarkObjects(b *testing.B) {
	b.Run("create", func(b *testing.B) {
		s := newSender(b)
		before, _ := taken()
		n := 0
		for b.Loop() {
			s.send(b, http.MethodPost, "", "application/json", s.object(b, n))
			n++
		}
		b.StopTimer()
		after, _ := taken()
		b.ReportMetric((after-before)/float64(n)/1000, "kB/object")
	})
	for _, verb := range []struct {
		name, method, media string
		body                func(s *sender, b *testing.B, n int) []byte
	}{
		{"get", http.MethodGet, "", func(*sender, *testing.B, int) []byte { return nil }},
		{"patch", http.MethodPatch, "application/merge-patch+json", func(_ *sender, _ *testing.B, n int) []byte {
			return fmt.Appendf(nil, `{"metadata":{"labels":{"round":"r%d"}}}`, n)
		}},
		{"update", http.MethodPut, "application/json", func(s *sender, b *testing.B, n int) []byte {
			return bytes.Replace(s.last, []byte("a value of some length"), fmt.Appendf(nil, "a value of some len %d", n), 1)
		}},
		{"apply", http.MethodPatch, "application/apply-patch+yaml", func(s *sender, b *testing.B, n int) []byte {
			return bytes.Replace(s.object(b, 0), []byte("a value of some length"), fmt.Appendf(nil, "a value of some len %d", n), 1)
		}},
		{"apply-same", http.MethodPatch, "application/apply-patch+yaml", func(s *sender, b *testing.B, _ int) []byte { return s.object(b, 0) }},
	} {
		b.Run(verb.name, func(b *testing.B) {
			s := newSender(b)
			s.send(b, http.MethodPost, "", "application/json", s.object(b, 0))
			path := "/" + name(0)
			if verb.media == "application/apply-patch+yaml" {
				path += "?fieldManager=applier&force=true"
			}
			n := 0
			for b.Loop() {
				s.send(b, verb.method, path, verb.media, verb.body(s, b, n))
				n++
			}
		})
	}
	b.Run("list200", func(b *testing.B) {
		s := newSender(b)
		for n := range 200 {
			s.send(b, http.MethodPost, "", "application/json", s.object(b, n))
		}
		for b.Loop() {
			s.send(b, http.MethodGet, "", "", nil)
		}
	})
}

// sender sends requests for objects of definition number 0.
type sender struct {
	client   *http.Client
	base     string
	template []byte
	last     []byte // the last answer
}

func name(n int) string { return fmt.Sprintf("object-%08d", n) }

func newSender(b *testing.B) *sender {
	c, err := cluster.Start(b.Context(), cluster.Options{Extensions: []cluster.Extension{customresources.Extension(customresources.Options{})}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	a := clients(b, c.Config())
	crd := provider.Definition(0)
	a.define(crd)
	a.established(crd.Name)
	s := &sender{}
	if s.client, err = rest.HTTPClientFor(c.Config()); err != nil {
		b.Fatal(err)
	}
	if s.template, err = provider.Object(0, "NAME").MarshalJSON(); err != nil {
		b.Fatal(err)
	}
	s.base = c.Config().Host + "/apis/example.com/" + provider.Version + "/" + crd.Spec.Names.Plural
	return s
}

func (s *sender) object(b *testing.B, n int) []byte {
	return bytes.Replace(s.template, []byte("NAME"), []byte(name(n)), 1)
}

func (s *sender) send(b *testing.B, method, path, media string, body []byte) {
	r, err := http.NewRequestWithContext(b.Context(), method, s.base+path, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	s.last, err = io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		b.Fatal(err, answer.Status, string(s.last))
	}
}
