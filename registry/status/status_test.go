package status_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/status"
)

func failure(code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: details}
}

// TestOf holds the answers that clients know from upstream.
func TestOf(t *testing.T) {
	key := registry.ObjectKey{Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: "default", Name: "web"}
	named := func() *metav1.StatusDetails {
		return &metav1.StatusDetails{Name: "web", Group: "apps", Kind: "deployments"}
	}
	causes := []metav1.StatusCause{{Type: "Type", Message: "why", Field: "spec"}}
	because := named()
	because.Causes = causes
	with := func(err *registry.Error, change func(*registry.Error)) error {
		change(err)
		return err
	}
	caused := func(e *registry.Error) { e.Causes = causes }
	for name, c := range map[string]struct {
		err  error
		want metav1.Status
	}{
		"not found":            {registry.Errorf(registry.ErrNotFound, key, ""), failure(404, "NotFound", `deployments.apps "web" not found`, named())},
		"not found, otherwise": {registry.Errorf(registry.ErrNotFound, key, "no %s", "such"), failure(404, "NotFound", "no such", named())},
		"exists":               {registry.Errorf(registry.ErrExists, key, ""), failure(409, "AlreadyExists", `deployments.apps "web" already exists`, named())},
		"exists, otherwise":    {registry.Errorf(registry.ErrExists, key, "no room"), failure(409, "AlreadyExists", `no room: deployments.apps "web" already exists`, named())},
		"conflict": {
			with(registry.Errorf(registry.ErrConflict, key, "it changed"), caused),
			failure(409, "Conflict", `Operation cannot be fulfilled on deployments.apps "web": it changed`, because),
		},
		"forbidden": {
			with(registry.Errorf(registry.ErrForbidden, key, "no"), caused),
			failure(403, "Forbidden", `deployments.apps "web" is forbidden: no`, because),
		},
		"invalid": {
			with(registry.Errorf(registry.ErrInvalid, key, ""), func(e *registry.Error) {
				e.Kind = "Deployment"
				e.Fields = field.ErrorList{field.Required(field.NewPath("spec", "selector"), "")}
			}),
			failure(422, "Invalid", `Deployment.apps "web" is invalid: spec.selector: Required value`, &metav1.StatusDetails{
				Name: "web", Group: "apps", Kind: "Deployment",
				Causes: []metav1.StatusCause{{Type: "FieldValueRequired", Message: "Required value", Field: "spec.selector"}},
			}),
		},
		"expired": {
			with(registry.Errorf(registry.ErrExpired, key, "too old"), func(e *registry.Error) { e.Continue = "token" }),
			metav1.Status{
				Status: metav1.StatusFailure, Code: 410, Reason: "Expired", Message: "too old", ListMeta: metav1.ListMeta{Continue: "token"},
			},
		},
		"bad request": {registry.Errorf(registry.ErrBadRequest, key, "nonsense"), failure(400, "BadRequest", "nonsense", nil)},
		"too many requests": {
			with(registry.Errorf(registry.ErrTooManyRequests, key, "later"), func(e *registry.Error) { e.RetryAfter, e.Causes = 7, causes }),
			failure(429, "TooManyRequests", "later", &metav1.StatusDetails{RetryAfterSeconds: 7, Causes: causes}),
		},
		"internal": {
			registry.Errorf(registry.ErrInternal, key, "broken"),
			failure(500, "InternalError", "Internal error occurred: broken", &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "broken"}}}),
		},
		"timeout": {registry.Errorf(registry.ErrTimeout, key, "too late"), failure(504, "Timeout", "Timeout: too late", &metav1.StatusDetails{})},
		"no name left": {
			registry.Errorf(registry.ErrNameExhausted, key, ""),
			failure(409, "AlreadyExists", `deployments.apps "web" already exists, the server was not able to generate a unique name for the object`,
				&metav1.StatusDetails{Name: "web", Group: "apps", Kind: "deployments", RetryAfterSeconds: 1}),
		},
		"of no known sort": {
			registry.Errorf(errors.New("odd"), key, "thing"),
			failure(500, "InternalError", `Internal error occurred: deployments.apps "web": odd: thing`,
				&metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: `deployments.apps "web": odd: thing`}}}),
		},
		"wrapped":        {fmt.Errorf("while writing: %w", registry.Errorf(registry.ErrBadRequest, key, "nonsense")), failure(400, "BadRequest", "nonsense", nil)},
		"with a status":  {fmt.Errorf("of a plugin: %w", apierrors.NewBadRequest("its own")), failure(400, "BadRequest", "its own", nil)},
		"of another":     {errors.New("other"), failure(418, "Other", "", nil)},
		"nobody's":       {errors.New("unknown"), failure(500, "", "unknown", nil)},
		"out of time":    {fmt.Errorf("x: %w", context.DeadlineExceeded), failure(504, "Timeout", "Timeout: request did not complete within requested timeout - context deadline exceeded", &metav1.StatusDetails{})},
		"other, refused": {registry.Errorf(registry.ErrBadRequest, key, "other"), failure(400, "BadRequest", "other", nil)},
	} {
		asked := 0
		none := func(error) *metav1.Status { asked++; return nil }
		other := func(err error) *metav1.Status {
			if err.Error() != "other" {
				return nil
			}
			s := failure(418, "Other", "", nil)
			return &s
		}
		if got := status.Of(c.err, none, other); !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s:\n got %+v %+v\nwant %+v %+v", name, *got, got.Details, c.want, c.want.Details)
		}
		if name == "nobody's" && asked != 1 {
			t.Errorf("the first of the others was asked %d times", asked)
		}
	}
}

// TestOfRevisionsToCome: a list of a state that there is not yet is not answered with another.
func TestOfRevisionsToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		_, err := api.List(t.Context(), client.Target{Resource: controllerstest.Pods()}, metav1.ListOptions{
			ResourceVersion: "1000", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		want := failure(504, "Timeout", "Timeout: Too large resource version: 1000, current: 1", &metav1.StatusDetails{
			RetryAfterSeconds: 1, Causes: []metav1.StatusCause{{Type: "ResourceVersionTooLarge", Message: "Too large resource version"}},
		})
		var got apierrors.APIStatus
		if !errors.As(err, &got) || !reflect.DeepEqual(got.Status(), want) {
			t.Errorf("got %#v", err)
		}
	})
}

// TestInvalid: an answer tells a bounded number of errors, of bounded size, and how many it leaves out.
func TestInvalid(t *testing.T) {
	kind := schema.GroupKind{Kind: "Pod"}
	errs := func(n, size int) field.ErrorList {
		all := make(field.ErrorList, 0, n)
		for i := range n {
			all = append(all, field.Invalid(field.NewPath("spec").Index(i%10), "v", strings.Repeat("x", size)))
		}
		return all
	}
	overhead := len(errs(1, 1)[0].ErrorBody()) - 1
	for name, c := range map[string]struct {
		errs      field.ErrorList
		told      int
		more      string
		cutCauses bool
	}{
		"none":              {nil, 0, "", false},
		"as many as fit":    {errs(1000, 1), 1000, "", false},
		"one more":          {errs(1001, 1), 1000, "1 more errors are left out", false},
		"all bytes of one":  {errs(1, 16<<10-overhead), 1, "", false},
		"a byte more":       {errs(1, 16<<10-overhead+1), 1, "", true},
		"all bytes of all":  {errs(32, 16<<10-overhead-len("spec[0]")), 32, "", false},
		"too much together": {errs(33, 16<<10-overhead-len("spec[0]")), 32, "1 more errors are left out", false},
		"too much, by one":  {append(errs(31, 16<<10-overhead-len("spec[0]")), errs(1, 16<<10-overhead-len("spec[0]")+1)...), 31, "1 more errors are left out", false},
	} {
		s := status.Invalid(kind, "p", c.errs)
		causes := s.Details.Causes
		if c.more != "" {
			last := causes[len(causes)-1]
			if want := (metav1.StatusCause{Type: "FieldErrorsLeftOut", Message: c.more}); last != want {
				t.Errorf("%s: the last cause is %+v", name, last)
			}
			causes = causes[:len(causes)-1]
			if !strings.HasSuffix(s.Message, "; "+c.more) {
				t.Errorf("%s: the message ends with %q", name, s.Message[len(s.Message)-50:])
			}
		}
		if len(causes) != c.told {
			t.Errorf("%s: %d causes, want %d", name, len(causes), c.told)
		}
		if len(c.errs) == 0 && s.Message != `Pod "p" is invalid` {
			t.Errorf("%s: %q", name, s.Message)
		}
		for i, cause := range causes {
			cut := strings.HasSuffix(cause.Message, "x... (1 more bytes are left out)")
			if whole := !strings.Contains(cause.Message, "left out"); cut != c.cutCauses || whole == cut || cause.Field != c.errs[i].Field || cause.Type != "FieldValueInvalid" {
				t.Fatalf("%s: cause %d, cut: %v: %.100s", name, i, cut, cause.Message)
			}
		}
	}
	two := status.Invalid(kind, "p", errs(2, 1)).Message
	if want := `Pod "p" is invalid: [spec[0]: Invalid value: "v": x, spec[1]: Invalid value: "v": x]`; two != want {
		t.Errorf("two errors: %s", two)
	}
	// What is cut stays text, where the cut falls into a letter.
	split := status.Invalid(kind, "p", field.ErrorList{field.Invalid(field.NewPath("a"), "v", strings.Repeat("ä", 10000))})
	if text := split.Details.Causes[0].Message; strings.ToValidUTF8(text, "?") != text {
		t.Error("a letter was cut in two")
	}
}

func TestNoRoute(t *testing.T) {
	err := status.NoRoute(http.StatusNotAcceptable, "only JSON")
	var got apierrors.APIStatus
	if want := failure(406, "NotAcceptable", "only JSON", &metav1.StatusDetails{}); !errors.As(err, &got) || !reflect.DeepEqual(got.Status(), want) {
		t.Errorf("%#v", err)
	}
}
