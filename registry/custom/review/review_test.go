package review_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry/custom/review"
)

var v2 = schema.GroupVersion{Group: "example.com", Version: "v2"}

func object(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "n": int64(7)}}
}

func webhook(versions ...string) *apiextensionsv1.WebhookConversion {
	url := "https://hook.example/convert"
	return &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url}, ConversionReviewVersions: versions}
}

// Reviews are of the first version that both sides know, and have all objects at once.
func TestConvert(t *testing.T) {
	for _, tt := range []struct {
		versions []string
		want     string
	}{{[]string{"v1", "v1beta1"}, "v1"}, {[]string{"v9", "v1beta1", "v1"}, "v1beta1"}} {
		calls := 0
		c := review.New(webhook(tt.versions...), review.CallerFunc(func(_ context.Context, to *apiextensionsv1.WebhookClientConfig, body []byte) ([]byte, error) {
			calls++
			var q apiextensionsv1.ConversionReview
			if err := json.Unmarshal(body, &q); err != nil {
				return nil, err
			}
			if *to.URL != "https://hook.example/convert" || q.APIVersion != "apiextensions.k8s.io/"+tt.want || q.Kind != "ConversionReview" || q.Request.DesiredAPIVersion != "example.com/v2" {
				t.Errorf("to %s: %s", *to.URL, body)
			}
			q.Response = &apiextensionsv1.ConversionResponse{UID: q.Request.UID, ConvertedObjects: q.Request.Objects}
			for i := range q.Response.ConvertedObjects {
				raw := &q.Response.ConvertedObjects[i].Raw
				*raw = []byte(strings.Replace(string(*raw), "example.com/v1", "example.com/v2", 1))
			}
			q.Response.Result.Status, q.Request = "Success", nil
			return json.Marshal(&q)
		}), review.Options{})
		out, err := c.Convert(t.Context(), []*unstructured.Unstructured{object("a"), object("b")}, v2)
		if err != nil || len(out) != 2 || out[1].GetName() != "b" || out[1].GetAPIVersion() != "example.com/v2" || out[1].Object["n"] != int64(7) || calls != 1 {
			t.Errorf("%v: %v, %v, %d calls", tt.versions, out, err, calls)
		}
	}
}

// What an answer lacks fails with upstream's words. Of v1beta1, neither type nor UID are looked at.
func TestAnswers(t *testing.T) {
	const head = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":`
	random := regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
	for name, tt := range map[string]struct{ version, answer, want string }{
		"no JSON":         {"v1", `?`, "invalid character"},
		"another type":    {"v1", `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}`, "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview"},
		"no response":     {"v1", head + `null}`, "no response provided"},
		"another UID":     {"v1", head + `{"uid":"x"}}`, `expected response.uid="UID", got "x"`},
		"refused":         {"v1", head + `{"uid":"UID","result":{"status":"Failure","message":"too old"}}}`, "too old"},
		"no result":       {"v1", head + `{"uid":"UID"}}`, "response.result.status was '', not 'Success'"},
		"no object":       {"v1", head + `{"uid":"UID","result":{"status":"Success"},"convertedObjects":[5]}}`, "invalid converted object at index 0"},
		"v1beta1":         {"v1beta1", `{"response":{"result":{"status":"Success"}}}`, ""},
		"v1beta1 refused": {"v1beta1", `{"response":{"result":{"status":"Failure"}}}`, "response.result.status was 'Failure', not 'Success'"},
		"unknown version": {"v9", ``, "no supported conversion review versions"},
	} {
		t.Run(name, func(t *testing.T) {
			var uid string
			c := review.New(webhook(tt.version), review.CallerFunc(func(_ context.Context, _ *apiextensionsv1.WebhookClientConfig, body []byte) ([]byte, error) {
				var q apiextensionsv1.ConversionReview
				if err := json.Unmarshal(body, &q); err != nil {
					return nil, err
				}
				if uid = string(q.Request.UID); !random.MatchString(uid) {
					t.Errorf("%s is no random UUID", uid)
				}
				return []byte(strings.ReplaceAll(tt.answer, "UID", uid)), nil
			}), review.Options{})
			out, err := c.Convert(t.Context(), []*unstructured.Unstructured{object("a")}, v2)
			if want := strings.ReplaceAll(tt.want, "UID", uid); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, %v, want %q", out, err, want)
			}
		})
	}
}

// A call ends with its time-out or its request.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := review.CallerFunc(func(ctx context.Context, _ *apiextensionsv1.WebhookClientConfig, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("no answer: %w", ctx.Err())
		})
		for _, tt := range []struct {
			o    review.Options
			want time.Duration
		}{{review.Options{}, 30 * time.Second}, {review.Options{Timeout: time.Second}, time.Second}} {
			began := time.Now()
			_, err := review.New(webhook("v1"), hang, tt.o).Convert(t.Context(), []*unstructured.Unstructured{object("a")}, v2)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != tt.want {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
	})
}

// FuzzAnswer reads answers from anywhere.
func FuzzAnswer(f *testing.F) {
	f.Add("v1", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"UID","result":{"status":"Success"},"convertedObjects":[{"kind":"Widget","apiVersion":"example.com/v2"}]}}`)
	f.Add("v1beta1", `{"response":{"result":{"status":"Success"},"convertedObjects":[null,{}]}}`)
	f.Add("v1", `{"response":[]}`)
	f.Fuzz(func(t *testing.T, version, answer string) {
		c := review.New(webhook(version), review.CallerFunc(func(_ context.Context, _ *apiextensionsv1.WebhookClientConfig, body []byte) ([]byte, error) {
			var q apiextensionsv1.ConversionReview
			if err := json.Unmarshal(body, &q); err != nil {
				t.Fatal(err)
			}
			return []byte(strings.ReplaceAll(answer, "UID", string(q.Request.UID))), nil
		}), review.Options{})
		out, err := c.Convert(t.Context(), []*unstructured.Unstructured{object("a")}, v2)
		for _, obj := range out {
			if err != nil || obj == nil || obj.GetKind() == "" {
				t.Errorf("%v, %v", obj, err)
			}
		}
	})
}
