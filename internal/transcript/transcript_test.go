package transcript_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/internal/transcript"
)

const table = `A comment.

## first => made
POST /things
Content-Type: application/yaml

a: b

c: d

## second
GET /things/${made.metadata.name}
Authorization: none
`

func TestPlay(t *testing.T) {
	steps, err := transcript.Parse(table)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"message": "uid 11111111-2222-3333-4444-555555555555", "metadata": map[string]any{
			"name": "x-bcdfg", "generateName": "x-", "resourceVersion": "7", "managedFields": []any{}, "creationTimestamp": "2026-01-02T03:04:05Z",
		}})
	}))
	defer server.Close()
	player := transcript.NewPlayer(http.DefaultTransport, server.URL, "me")
	for _, s := range steps {
		got, err := player.Play(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		want := transcript.Answer{
			Step: s.Name, Code: 200, Header: map[string]string{"Content-Type": "application/json"},
			Body: map[string]any{"message": "uid <uid>", "metadata": map[string]any{
				"name": "x-<suffix>", "generateName": "x-", "resourceVersion": "<revision>", "creationTimestamp": "<time>",
			}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]string{"POST /things Bearer me", "GET /things/x-bcdfg "}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrors(t *testing.T) {
	for name, text := range map[string]string{
		"no request":     "## a\n",
		"bad header":     "## a\nGET /\nnonsense\n",
		"bad await":      "## a\nGET /\nAwait: x\n",
		"duplicate name": "## a\nGET /\n\n## a\nGET /\n",
		"path missing":   "## a\nGET\n",
	} {
		t.Run(name, func(t *testing.T) {
			if steps, err := transcript.Parse(text); err == nil {
				t.Errorf("parsed as %v", steps)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	a := transcript.Answer{Code: 200, Body: map[string]any{"a": []any{"x", "y"}, "b": 1.0}}
	b := transcript.Answer{Code: 404, Body: map[string]any{"a": []any{"x", "z"}}}
	if got := transcript.Diff(a, a); len(got) > 0 {
		t.Errorf("an answer differs from itself: %v", got)
	}
	if got := transcript.Diff(a, b); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}
