package webhook

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/api/admission/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/matching"
)

const reviewKind = "AdmissionReview"

// review is a request as a webhook gets it: in one version, without what differs among webhooks.
type review struct {
	version Version
	request admissionv1.AdmissionRequest
	raw     func() (encoded, error)
}

// encoded is the JSON of a review's objects.
type encoded struct{ object, oldObject, options []byte }

// newReview describes a request to webhooks that get it in a version.
func newReview(r *admission.Request, v Version) (*review, error) {
	asked := r.Requested()
	out := &review{version: v, request: admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(v.Kind), Resource: metav1.GroupVersionResource(v.Resource), SubResource: r.Subresource,
		RequestKind: new(metav1.GroupVersionKind(asked.Kind)), RequestResource: new(metav1.GroupVersionResource(asked.Resource)), RequestSubResource: r.Subresource,
		Name: r.Name, Namespace: r.Namespace, Operation: admissionv1.Operation(r.Operation), DryRun: new(r.DryRun),
	}}
	if u := r.User; u != nil {
		out.request.UserInfo = authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: extra(u.Extra)}
	}
	out.request.Options.Object = r.Options
	for into, obj := range map[*runtime.RawExtension]runtime.Object{&out.request.Object: r.Object, &out.request.OldObject: r.OldObject} {
		var err error
		if into.Object, err = out.version.Convert(r, obj); err != nil {
			return nil, err
		}
	}
	out.raw = sync.OnceValues(out.encode)
	return out, nil
}

func extra(of map[string][]string) map[string]authenticationv1.ExtraValue {
	out := make(map[string]authenticationv1.ExtraValue, len(of))
	for key, values := range of {
		out[key] = values
	}
	return out
}

// encode returns the JSON of the objects. Several webhooks share it by way of raw, and those in the same process that take
// objects as they are do not need it.
func (v *review) encode() (out encoded, err error) {
	q := &v.request
	if out.object, err = typed(v.version.Kind, q.Object.Object); err != nil {
		return out, err
	}
	if out.oldObject, err = typed(v.version.Kind, q.OldObject.Object); err != nil {
		return out, err
	}
	out.options, err = typed(matching.OptionsKind(q.Options.Object), q.Options.Object)
	return out, err
}

// message is the review for one webhook, in a version of AdmissionReview.
func (v *review) message(version string, uid types.UID) ([]byte, error) {
	raw, err := v.raw()
	if err != nil {
		return nil, err
	}
	q := v.request
	q.UID, q.Object.Raw, q.OldObject.Raw, q.Options.Raw = uid, raw.object, raw.oldObject, raw.options
	return json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: typeOfReview(version),
		Request:  &q,
	})
}

func typeOfReview(version string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: reviewKind, APIVersion: admissionv1.GroupName + "/" + version}
}

// typed encodes an object that may not name its type itself. It returns nil for nil.
func typed(kind schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	if obj == nil {
		return nil, nil
	}
	body, err := json.Marshal(obj)
	if err != nil || !obj.GetObjectKind().GroupVersionKind().Empty() {
		return body, err
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	out := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q`, name, apiVersion)
	if !bytes.Equal(body, []byte("{}")) {
		out = append(out, ',')
	}
	return append(out, body[1:]...), nil
}

// newUID is a random UUID, version 4.
func newUID() types.UID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, as documented
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// reviewVersion is the first of the versions that a webhook understands which is known here.
func reviewVersion(understood []string) (string, error) {
	for _, v := range understood {
		if v == admissionv1.SchemeGroupVersion.Version || v == v1beta1.SchemeGroupVersion.Version {
			return v, nil
		}
	}
	return "", errors.New("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
}

// decodeAnswer reads the answer to a review of a version. Its errors are upstream's.
func decodeAnswer(body []byte, version string) (*admissionv1.AdmissionReview, error) {
	out := &admissionv1.AdmissionReview{}
	failed := kjson.UnmarshalCaseSensitivePreserveInts(body, out)
	if failed == nil && out.Kind == reviewKind && out.APIVersion == admissionv1.GroupName+"/"+version {
		return out, nil
	}
	var is struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(body, &is); err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	gv, err := schema.ParseGroupVersion(is.APIVersion)
	if err != nil {
		return nil, err
	}
	// What the answer leaves out is taken to be right, except that v1 wants it to be named: see verify.
	want := schema.GroupVersion{Group: admissionv1.GroupName, Version: version}
	if gv.Version == "" {
		gv = want
	}
	if is.Kind == "" {
		is.Kind = reviewKind
	}
	known := gv.Group == want.Group && slices.Contains([]string{"v1", "v1beta1"}, gv.Version) && is.Kind == reviewKind
	switch {
	case gv == schema.GroupVersion{Version: "v1"} && is.Kind == "Status":
		return nil, fmt.Errorf("converting (v1.Status) to (%s.%s): unknown conversion", version, reviewKind)
	case !known:
		return nil, fmt.Errorf("no kind %q is registered for version %q in scheme %q", is.Kind, gv, "pkg/runtime/scheme.go:111")
	case gv != want:
		return nil, fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", gv.Version, reviewKind, version, reviewKind)
	}
	return out, failed
}

// verify returns the response in an answer. In v1, it must belong to the review, and patches be announced;
// validating webhooks must not send any. Its errors are upstream's.
func verify(answer *admissionv1.AdmissionReview, version string, uid types.UID, mutating bool) (*admissionv1.AdmissionResponse, error) {
	r := answer.Response
	if r == nil {
		return nil, errors.New("webhook response was absent")
	}
	if version == v1beta1.SchemeGroupVersion.Version {
		r.PatchType = new(admissionv1.PatchTypeJSONPatch) // the only one, whatever the answer says
		return r, nil
	}
	if r.UID != uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	}
	if want, got := admissionv1.SchemeGroupVersion.WithKind(reviewKind), answer.GroupVersionKind(); got != want {
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want, got)
	}
	patched, announced := len(r.Patch) > 0, r.PatchType != nil
	switch {
	case !mutating && patched:
		return nil, errors.New("validating webhook may not return response.patch")
	case !mutating && announced:
		return nil, errors.New("validating webhook may not return response.patchType")
	case patched && !announced:
		return nil, errors.New("webhook returned response.patch but not response.patchType")
	case announced && !patched:
		return nil, errors.New("webhook returned response.patchType but not response.patch")
	case announced && *r.PatchType == "":
		return nil, fmt.Errorf("webhook returned invalid response.patchType of %q", *r.PatchType)
	}
	return r, nil
}

// sortedKeys returns the keys of a map in order.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
