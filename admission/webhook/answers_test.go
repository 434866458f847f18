package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry/status"
)

var uid = regexp.MustCompile(`"uid":"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`)

// TestReview pins what webhooks get.
func TestReview(t *testing.T) {
	user := func(r *admission.Request) {
		r.User = &authn.Identity{Name: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	}
	const request = `"request":{UID,"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},`
	const same = `"requestKind":{"group":"","version":"v1","kind":"Pod"},"requestResource":{"group":"","version":"v1","resource":"pods"},`
	const body = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"ns","labels":{"app":"x"}},"spec":{"containers":null},"status":{}}`
	for name, test := range map[string]struct {
		hook    registrationv1.MutatingWebhook
		request *admission.Request
		want    string
	}{
		"create": {hook("a"), admissiontest.Create(t, pod(), user),
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",` + request + same +
				`"name":"p","namespace":"ns","operation":"CREATE","userInfo":{"username":"u","uid":"1","groups":["g"],"extra":{"k":["v"]}},` +
				`"object":` + body + `,"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}`},
		"a dry run of an update of the status, in v1beta1": {hook("a", beta),
			admissiontest.Update(t, pod(), pod(), admissiontest.Subresource("status"), admissiontest.DryRun, func(r *admission.Request) {
				r.Options = &metav1.UpdateOptions{DryRun: []string{"All"}}
			}),
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1",` + request + `"subResource":"status",` + same + `"requestSubResource":"status",` +
				`"name":"p","namespace":"ns","operation":"UPDATE","userInfo":{"username":"tester","groups":["system:authenticated"]},` +
				`"object":` + body + `,"oldObject":` + body + `,"dryRun":true,"options":{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1","dryRun":["All"]}}}`},
		"delete": {hook("a"), admissiontest.Delete(t, pod(), func(r *admission.Request) {
			r.User, r.Options = nil, &metav1.DeleteOptions{GracePeriodSeconds: new(int64(3)), TypeMeta: metav1.TypeMeta{Kind: "Own", APIVersion: "v7"}}
		}),
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",` + request + same +
				`"name":"p","namespace":"ns","operation":"DELETE","userInfo":{},` +
				`"object":null,"oldObject":` + body + `,"dryRun":false,"options":{"kind":"Own","apiVersion":"v7","gracePeriodSeconds":3}}}`},
		"delete, plainly": {hook("a"), admissiontest.Delete(t, pod()),
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",` + request + same +
				`"name":"p","namespace":"ns","operation":"DELETE","userInfo":{"username":"tester","groups":["system:authenticated"]},` +
				`"object":null,"oldObject":` + body + `,"dryRun":false,"options":{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}}}`},
		"connect": {hook("a"), &admission.Request{Operation: admission.Connect, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Subresource: "exec",
			Kind: corev1.SchemeGroupVersion.WithKind("PodExecOptions"), Namespace: "ns", Name: "p", Object: &corev1.PodExecOptions{}},
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",` +
				strings.NewReplacer(`"kind":"Pod"`, `"kind":"PodExecOptions"`).Replace(request+`"subResource":"exec",`+same) + `"requestSubResource":"exec",` +
				`"name":"p","namespace":"ns","operation":"CONNECT","userInfo":{},` +
				`"object":{"kind":"PodExecOptions","apiVersion":"v1","command":null},"oldObject":null,"dryRun":false,"options":null}}`},
		"a patch": {hook("a"), admissiontest.Update(t, pod(), pod(), func(r *admission.Request) { r.Options = &metav1.PatchOptions{} }),
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",` + request + same +
				`"name":"p","namespace":"ns","operation":"UPDATE","userInfo":{"username":"tester","groups":["system:authenticated"]},` +
				`"object":` + body + `,"oldObject":` + body + `,"dryRun":false,"options":{"kind":"PatchOptions","apiVersion":"meta.k8s.io/v1"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if called, err := both(t, w, test.request, test.hook); !called || err != nil {
				t.Fatal(called, err)
			}
			if w.reviews[0] == w.reviews[1] {
				t.Error("two webhooks got the same UID")
			}
			for _, got := range w.reviews {
				if got = uid.ReplaceAllString(got, "UID"); got != test.want {
					t.Errorf("got\n%s\nwant\n%s", got, test.want)
				}
			}
		})
	}
}

// answers returns a reply with a body in which UID stands for the review's.
func answers(body string) reply {
	return func(_ context.Context, r *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error) {
		return nil, strings.ReplaceAll(body, "UID", string(r.Request.UID)), nil
	}
}

// TestAnswers: what a webhook may answer, and what is made of all else. The texts are upstream's.
func TestAnswers(t *testing.T) {
	const call, response, is = "failed to call webhook: ", "received invalid webhook response: ", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`
	const isBeta = `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"`
	for _, test := range []struct {
		body                    string
		v1, v1Mutating, v1beta1 string // the failure; in v1Mutating, if it differs
	}{
		{body: is + `,"response":{"uid":"UID","allowed":true}}`, v1beta1: call + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: is + `,"response":{"uid":"UID","allowed":true},"more":1}`, v1beta1: call + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: isBeta + `,"response":{"uid":"other","allowed":true}}`, v1: call + "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"},
		{body: `{"response":{"uid":"UID","allowed":true}}`, v1: response + "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="},
		{body: `{"kind":"AdmissionReview","response":{"uid":"UID","allowed":true}}`, v1: response + "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=AdmissionReview"},
		{body: `{"apiVersion":"admission.k8s.io/v1beta1","response":{"uid":"UID","allowed":true}}`, v1: call + "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"},
		{body: `{"apiVersion":"v1","kind":"Status","status":"Success"}`, v1: call + "converting (v1.Status) to (v1.AdmissionReview): unknown conversion",
			v1beta1: call + "converting (v1.Status) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: `{"apiVersion":"x/v1","kind":"Status"}`, v1: call + `no kind "Status" is registered for version "x/v1" in scheme "pkg/runtime/scheme.go:111"`,
			v1beta1: call + `no kind "Status" is registered for version "x/v1" in scheme "pkg/runtime/scheme.go:111"`},
		{body: `{"apiVersion":"v1","kind":"Pod"}`, v1: call + `no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"`,
			v1beta1: call + `no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"`},
		{body: `{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview"}`, v1: call + `no kind "AdmissionReview" is registered for version "admission.k8s.io/v2" in scheme "pkg/runtime/scheme.go:111"`,
			v1beta1: call + `no kind "AdmissionReview" is registered for version "admission.k8s.io/v2" in scheme "pkg/runtime/scheme.go:111"`},
		{body: `{"apiVersion":"admission.k8s.io/v1","kind":"Pod"}`, v1: call + `no kind "Pod" is registered for version "admission.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"`,
			v1beta1: call + `no kind "Pod" is registered for version "admission.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"`},
		{body: `{"apiVersion":"example.com/v1","kind":"AdmissionReview"}`, v1: call + `no kind "AdmissionReview" is registered for version "example.com/v1" in scheme "pkg/runtime/scheme.go:111"`,
			v1beta1: call + `no kind "AdmissionReview" is registered for version "example.com/v1" in scheme "pkg/runtime/scheme.go:111"`},
		{body: `{"apiVersion":"a/b/c","kind":"AdmissionReview"}`, v1: call + "unexpected GroupVersion string: a/b/c", v1beta1: call + "unexpected GroupVersion string: a/b/c"},
		{body: `{"apiVersion":1}`, v1: call + "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .apiVersion of type string",
			v1beta1: call + "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .apiVersion of type string"},
		{body: `[1]`, v1: call + "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
			v1beta1: call + "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"},
		{body: is, v1: call + "couldn't get version/kind; json parse error: unexpected end of JSON input", v1beta1: call + "couldn't get version/kind; json parse error: unexpected end of JSON input"},
		{body: is + `}`, v1: response + "webhook response was absent", v1beta1: call + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: isBeta + `}`, v1: call + "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion", v1beta1: response + "webhook response was absent"},
		{body: is + `,"response":{"uid":"x","allowed":true}}`, v1: response + `expected response.uid="UID", got "x"`, v1beta1: call + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: is + `,"response":{"uid":"UID","allowed":"yes"}}`, v1: call + "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
			v1beta1: call + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: is + `,"response":{"uid":"UID","allowed":true,"patch":"!!"}}`, v1: call + "illegal base64 data at input byte 0",
			v1beta1: call + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: is + `,"response":{"uid":"UID","allowed":true,"patch":"W10="}}`, v1: response + "validating webhook may not return response.patch",
			v1Mutating: response + "webhook returned response.patch but not response.patchType", v1beta1: call + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: is + `,"response":{"uid":"UID","allowed":true,"patchType":"JSONPatch"}}`, v1: response + "validating webhook may not return response.patchType",
			v1Mutating: response + "webhook returned response.patchType but not response.patch", v1beta1: call + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: is + `,"response":{"uid":"UID","allowed":true,"patch":"W10=","patchType":""}}`, v1: response + "validating webhook may not return response.patch",
			v1Mutating: response + `webhook returned invalid response.patchType of ""`, v1beta1: call + "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"},
		{body: isBeta + `,"response":{"allowed":true,"patchType":"Other"}}`, v1: call + "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"},
	} {
		for _, mutating := range []bool{false, true} {
			for _, h := range []registrationv1.MutatingWebhook{hook("a"), hook("a", beta), hook("a", ignore), hook("a", beta, ignore)} {
				w := newWorld(t)
				w.replies["a"] = answers(test.body)
				want := test.v1
				if mutating {
					w.mutate("c", h)
					if test.v1Mutating != "" {
						want = test.v1Mutating
					}
				} else {
					w.validate("c", h)
				}
				if len(h.AdmissionReviewVersions) > 1 {
					want = test.v1beta1
				}
				if want != "" {
					want = `Internal error occurred: failed calling webhook "a.example.com": ` + want
				}
				if *h.FailurePolicy == registrationv1.Ignore {
					want = ""
				}
				err := w.run(admissiontest.Create(t, pod()))
				got := ""
				if err != nil {
					got = regexp.MustCompile(`[0-9a-f]{8}-[-0-9a-f]{27}`).ReplaceAllString(err.Error(), "UID")
				}
				if got != want {
					t.Errorf("%s, mutating %t, %v: got\n%s\nwant\n%s", test.body, mutating, h.AdmissionReviewVersions, got, want)
				}
				var failure *webhook.CallError
				if want != "" && (!errors.Is(err, admission.ErrInternal) || !errors.As(err, &failure) || failure.Webhook != "a.example.com") {
					t.Errorf("%#v", err)
				}
			}
		}
	}
}

// TestDenials: a client is told what the webhook said, under the webhook's name.
func TestDenials(t *testing.T) {
	const by = `admission webhook "a.example.com" denied the request`
	for name, test := range map[string]struct{ said, want *metav1.Status }{
		"nothing":      {nil, &metav1.Status{Status: "Failure", Code: 400, Message: by + " without explanation"}},
		"empty":        {&metav1.Status{}, &metav1.Status{Status: "Failure", Code: 400, Message: by + " without explanation"}},
		"a message":    {&metav1.Status{Message: "no"}, &metav1.Status{Status: "Failure", Code: 400, Message: by + ": no"}},
		"a reason":     {&metav1.Status{Reason: "Forbidden"}, &metav1.Status{Status: "Failure", Code: 400, Reason: "Forbidden", Message: by + ": Forbidden"}},
		"a success":    {&metav1.Status{Status: "Success", Code: 399}, &metav1.Status{Status: "Failure", Code: 400, Message: by + " without explanation"}},
		"an own state": {&metav1.Status{Status: "Odd", Code: 400}, &metav1.Status{Status: "Odd", Code: 400, Message: by + " without explanation"}},
		"everything": {&metav1.Status{Status: "Failure", Code: 503, Reason: "Busy", Message: "no", Details: &metav1.StatusDetails{Name: "d", RetryAfterSeconds: 7}},
			&metav1.Status{Status: "Failure", Code: 503, Reason: "Busy", Message: by + ": no", Details: &metav1.StatusDetails{Name: "d", RetryAfterSeconds: 7}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, h := range []registrationv1.MutatingWebhook{hook("a"), hook("a", ignore), hook("a", beta)} {
				w := newWorld(t)
				w.replies["a"] = says(admissionv1.AdmissionResponse{Result: test.said, Warnings: []string{"careful"}})
				_, err := both(t, w, admissiontest.Create(t, pod()), h)
				var denial *webhook.Denial
				if !errors.As(err, &denial) || denial.Webhook != "a.example.com" || err.Error() != test.want.Message {
					t.Fatalf("%#v", err)
				}
				if got := apierrors.APIStatus(denial).Status(); got.String() != test.want.String() {
					t.Errorf("got  %v\nwant %v", got.String(), test.want.String())
				}
				if !slices.Equal(w.warnings, []string{"careful", "careful"}) {
					t.Errorf("warned of %q", w.warnings)
				}
			}
		})
	}
}

// TestNotCalled: what keeps a webhook from being called is a failure like others.
func TestNotCalled(t *testing.T) {
	broken := errors.New("no route")
	client := fmt.Errorf("%w: bad bundle", webhook.ErrClient)
	effects := func(class registrationv1.SideEffectClass) func(*registrationv1.MutatingWebhook) {
		return func(h *registrationv1.MutatingWebhook) { h.SideEffects = &class }
	}
	none := func(h *registrationv1.MutatingWebhook) { h.SideEffects = nil }
	const failed = `Internal error occurred: failed calling webhook "a.example.com": `
	const dry = `admission webhook "a.example.com" does not support dry run`
	for name, test := range map[string]struct {
		change  func(*registrationv1.MutatingWebhook)
		dry     bool
		err     error
		called  bool
		refused string
		ignored string // with the policy Ignore
	}{
		"fails":                      {func(*registrationv1.MutatingWebhook) {}, false, broken, true, failed + "failed to call webhook: no route", ""},
		"no policy":                  {func(h *registrationv1.MutatingWebhook) { h.FailurePolicy = nil }, false, broken, true, failed + "failed to call webhook: no route", ""},
		"no client":                  {func(*registrationv1.MutatingWebhook) {}, false, client, true, failed + "could not get REST client: bad bundle", ""},
		"unknown reviews":            {func(h *registrationv1.MutatingWebhook) { h.AdmissionReviewVersions = []string{"v2"} }, false, nil, false, failed + "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)", ""},
		"a dry run, no effects":      {effects(registrationv1.SideEffectClassNone), true, nil, true, "", ""},
		"a dry run, none then":       {effects(registrationv1.SideEffectClassNoneOnDryRun), true, nil, true, "", ""},
		"a dry run, some effects":    {effects(registrationv1.SideEffectClassSome), true, nil, false, dry, dry},
		"a dry run, unknown effects": {effects(registrationv1.SideEffectClassUnknown), true, nil, false, dry, dry},
		"a dry run, nothing said":    {none, true, nil, false, failed + "Webhook SideEffects is nil", ""},
		"some effects":               {effects(registrationv1.SideEffectClassSome), false, nil, true, "", ""},
		"nothing said":               {none, false, nil, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for want, change := range map[*string]func(*registrationv1.MutatingWebhook){&test.refused: test.change, &test.ignored: func(h *registrationv1.MutatingWebhook) { test.change(h); ignore(h) }} {
				w := newWorld(t)
				if test.err != nil {
					w.replies["a"] = fails(test.err)
				}
				r := admissiontest.Create(t, pod())
				r.DryRun = test.dry
				called, err := both(t, w, r, hook("a", change))
				if called != test.called || (err == nil) != (*want == "") || err != nil && err.Error() != *want {
					t.Errorf("called: %t, %v, want %q", called, err, *want)
				}
				if test.err != nil && err != nil && !errors.Is(err, test.err) {
					t.Errorf("%v is not %v", err, test.err)
				}
				if *want == dry && !errors.Is(err, admission.ErrBadRequest) {
					t.Errorf("%#v", err)
				}
			}
		})
	}
}

// TestReasons: a Status among the reasons of a failure is not the client's.
func TestReasons(t *testing.T) {
	w := newWorld(t)
	w.replies["a"] = fails(apierrors.NewServiceUnavailable("down"))
	_, err := both(t, w, admissiontest.Create(t, pod()), hook("a"))
	want := apierrors.NewInternalError(errors.New(`failed calling webhook "a.example.com": failed to call webhook: down`)).ErrStatus
	if got := status.Of(err); got.String() != want.String() || got.Message != err.Error() {
		t.Errorf("got  %v\nwant %v", got, &want)
	}
}

// TestTimeouts: a webhook has its own time, within that of the request.
func TestTimeouts(t *testing.T) {
	hangs := func(ctx context.Context, _ *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error) {
		<-ctx.Done()
		return nil, "", ctx.Err()
	}
	seconds := func(n *int32) func(*registrationv1.MutatingWebhook) {
		return func(h *registrationv1.MutatingWebhook) { h.TimeoutSeconds = n }
	}
	const failed = `Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: context deadline exceeded`
	const late = "Timeout: request did not complete within requested timeout"
	for name, test := range map[string]struct {
		request    time.Duration // of the request
		change     func(*registrationv1.MutatingWebhook)
		ignores    bool
		took       time.Duration
		mutating   string
		validating string
	}{
		"its own":                      {20 * time.Second, seconds(new(int32(3))), false, 3 * time.Second, failed, failed},
		"its own, ignored":             {20 * time.Second, seconds(new(int32(3))), true, 3 * time.Second, "", ""},
		"the request's":                {2 * time.Second, seconds(new(int32(3))), false, 2 * time.Second, failed, failed},
		"the request's, ignored":       {2 * time.Second, seconds(new(int32(3))), true, 2 * time.Second, late, ""},
		"no timeout of its own":        {40 * time.Second, seconds(nil), false, 40 * time.Second, failed, failed},
		"the request's time is up":     {0, seconds(new(int32(3))), false, 0, "context deadline exceeded", "context deadline exceeded"},
		"up and ignored, still called": {0, seconds(new(int32(3))), true, 0, "context deadline exceeded", "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mutating := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.replies["a"] = hangs
					h := hook("a", test.change)
					if test.ignores {
						ignore(&h)
					}
					want := test.validating
					if mutating {
						want = test.mutating
						w.mutate("c", h)
					} else {
						w.validate("c", h)
					}
					ctx, cancel := context.WithTimeout(t.Context(), test.request)
					defer cancel()
					began := time.Now()
					err := w.runIn(ctx, admissiontest.Create(t, pod()))
					if took := time.Since(began); took != test.took || (err == nil) != (want == "") || err != nil && err.Error() != want {
						t.Errorf("mutating %t: %v after %v", mutating, err, took)
					}
					if retry, _ := apierrors.SuggestsClientDelay(err); want == late && (!apierrors.IsTimeout(err) || retry != 0) {
						t.Errorf("%#v", err)
					}
				})
			}
		})
	}
}

// TestEndedBefore: validating webhooks are not called when the request's time is up.
func TestEndedBefore(t *testing.T) {
	w := newWorld(t)
	w.validate("c", hook("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := w.plugins()[1].(*webhook.Validating)
	if err := v.Validate(ctx, admissiontest.Create(t, pod())); !apierrors.IsTimeout(err) || len(w.calls) > 0 {
		t.Errorf("called %q, %v", w.calls, err)
	}
	v = newWorld(t).plugins()[1].(*webhook.Validating)
	if err := v.Validate(ctx, admissiontest.Create(t, pod())); err != nil {
		t.Errorf("without webhooks: %v", err)
	}
}

// TestEndedMeanwhile: a webhook that answers is not blamed for the time that is up.
func TestEndedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.mutate("c", hook("a"))
	ctx, cancel := context.WithCancel(t.Context())
	w.replies["a"] = func(context.Context, *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error) {
		cancel()
		return &admissionv1.AdmissionResponse{Allowed: true}, "", nil
	}
	if err := w.plugins()[0].(*webhook.Mutating).Admit(ctx, admissiontest.Create(t, pod())); err != nil {
		t.Error(err)
	}
}

// unwritable is an object that has no JSON.
type unwritable struct{ *corev1.Pod }

func (unwritable) MarshalJSON() ([]byte, error) { return nil, errors.New("no JSON") }

// TestUnwritable: what cannot be written cannot be reviewed.
func TestUnwritable(t *testing.T) {
	for name, change := range map[string]func(*admission.Request){
		"object":     func(r *admission.Request) { r.Object = unwritable{pod()} },
		"old object": func(r *admission.Request) { r.OldObject = unwritable{pod()} },
		"options":    func(r *admission.Request) { r.Options = unwritable{pod()} },
	} {
		w := newWorld(t)
		called, err := both(t, w, admissiontest.Update(t, pod(), pod(), change), hook("a", ignore))
		if called || !errors.Is(err, admission.ErrInternal) || !strings.HasSuffix(err.Error(), "no JSON") {
			t.Errorf("%s: called %t, %v", name, called, err)
		}
	}
}

// TestParallel: validating webhooks are called at once, all are waited for, and the first in order decides.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		after := func(d time.Duration, message string) reply {
			return func(context.Context, *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error) {
				time.Sleep(d)
				r := &admissionv1.AdmissionResponse{Allowed: message == "", Result: &metav1.Status{Message: message}, Warnings: []string{d.String()}}
				return r, "", nil
			}
		}
		w.validate("c", hook("a"), hook("b"), hook("c"), hook("d"))
		w.replies["a"], w.replies["b"] = after(2*time.Second, ""), after(3*time.Second, "b says no")
		w.replies["c"], w.replies["d"] = after(time.Second, "c says no"), after(4*time.Second, "")
		began := time.Now()
		err := w.run(admissiontest.Create(t, pod()))
		if took := time.Since(began); err == nil || err.Error() != `admission webhook "b.example.com" denied the request: b says no` || took != 4*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if want := []string{"2s", "3s", "1s", "4s"}; !slices.Equal(w.warnings, want) {
			t.Errorf("warned of %q, want %q", w.warnings, want)
		}
	})
}

// TestPanic: a Caller that panics fails the request.
func TestPanic(t *testing.T) {
	panics := func(context.Context, *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error) {
		panic("oh")
	}
	w := newWorld(t)
	w.replies["a"] = panics
	w.validate("c", hook("a"))
	err := w.run(admissiontest.Create(t, pod()))
	if err == nil || err.Error() != "Internal error occurred: ValidatingAdmissionWebhook/a.example.com has panicked: oh" {
		t.Error(err)
	}
	ignoring := newWorld(t)
	ignoring.replies["a"] = panics
	ignoring.validate("c", hook("a", ignore), hook("b"))
	if err := ignoring.run(admissiontest.Create(t, pod())); err != nil || len(ignoring.calls) != 2 {
		t.Errorf("called %q, %v", ignoring.calls, err)
	}
	if want := (webhook.Annotation{Key: "failed-open.validating.webhook.admission.k8s.io/round_0_index_0", Value: "a.example.com"}); !slices.Contains(ignoring.annotations, want) {
		t.Errorf("annotated %v", ignoring.annotations)
	}
}

// TestReports: annotations have the webhook's name before them, warnings are passed on.
func TestReports(t *testing.T) {
	w := newWorld(t)
	w.replies["a"] = says(admissionv1.AdmissionResponse{
		Allowed: true, Warnings: []string{"one", "two"},
		AuditAnnotations: map[string]string{"z": "1", "k": "2", "a/b": "3", "bad key": "4", "": "5"},
	})
	w.replies["b"] = fails(errors.New("down"))
	w.replies["c"] = fails(context.Canceled)
	w.mutate("m", hook("x", func(h *registrationv1.MutatingWebhook) { h.Rules = nil }), hook("a"), hook("b", ignore), hook("c", ignore))
	w.validate("v", hook("x", func(h *registrationv1.MutatingWebhook) { h.Rules = nil }), hook("a"), hook("b", ignore), hook("c", ignore))
	if err := w.run(admissiontest.Create(t, pod())); err != nil {
		t.Fatal(err)
	}
	if want := []string{"one", "two", "one", "two"}; !slices.Equal(w.warnings, want) {
		t.Errorf("warned of %q", w.warnings)
	}
	mutated := func(index int, name string) webhook.Annotation {
		return webhook.Annotation{
			Key:   fmt.Sprintf("mutation.webhook.admission.k8s.io/round_0_index_%d", index),
			Value: fmt.Sprintf(`{"configuration":"m","webhook":%q,"mutated":false}`, name),
		}
	}
	want := []webhook.Annotation{
		{Key: "a.example.com/k", Value: "2"}, {Key: "a.example.com/z", Value: "1"}, mutated(1, "a.example.com"),
		mutated(2, "b.example.com"), {Key: "failed-open.mutation.webhook.admission.k8s.io/round_0_index_2", Value: "b.example.com"},
		mutated(3, "c.example.com"),
		{Key: "a.example.com/k", Value: "2"}, {Key: "a.example.com/z", Value: "1"},
		{Key: "failed-open.validating.webhook.admission.k8s.io/round_0_index_1", Value: "b.example.com"},
	}
	if !slices.Equal(w.annotations, want) {
		t.Errorf("annotated\n%v\nwant\n%v", w.annotations, want)
	}
	w.options = webhook.Options{} // nothing is required
	if err := w.run(admissiontest.Create(t, pod())); err != nil {
		t.Error(err)
	}
}

// directly is a Caller whose webhooks are in the same process.
type directly struct {
	webhook.CallerFunc
	review func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

func (d directly) Reviewer(*registrationv1.WebhookClientConfig) webhook.Reviewer { return d }

func (d directly) Review(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return d.review(r)
}

// TestDirect: a webhook in the same process gets the request with a UID of its own each time, which its answer has to repeat.
func TestDirect(t *testing.T) {
	w := newWorld(t)
	w.validate("c", hook("a"))
	seen := map[types.UID]bool{}
	caller := directly{review: func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		seen[r.UID] = true
		return &admissionv1.AdmissionResponse{UID: r.UID, Allowed: r.Object.Object != nil}
	}}
	for range 2 {
		if err := webhook.NewValidating(&w.validating, w.namespaces, caller, w.options).Validate(t.Context(), admissiontest.Create(t, pod())); err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 2 || seen[""] {
		t.Errorf("asked with %v", seen)
	}
	caller.review = func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{UID: "another", Allowed: true}
	}
	if err := webhook.NewValidating(&w.validating, w.namespaces, caller, w.options).Validate(t.Context(), admissiontest.Create(t, pod())); err == nil {
		t.Error("an answer to another request counts")
	}
}
