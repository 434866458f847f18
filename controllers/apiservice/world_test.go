package apiservice_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/apiservice"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry/apiregistration"
)

// world is an API that serves APIServices, and caches of it, in a bubble. Nothing reconciles but the test.
type world struct {
	*testing.T
	api *controllerstest.API
	in  apiservice.Sources
}

func inBubble(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{Kinds: apiregistration.Kinds()})
		o := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
		w := &world{t, api, apiservice.Sources{
			APIServices:    informer.New(controllerstest.Source[*apiregistrationv1.APIService](api, at("").Resource), o),
			Services:       informer.New(controllerstest.Source[*corev1.Service](api, corev1.SchemeGroupVersion.WithResource("services")), o),
			EndpointSlices: informer.New(controllerstest.Source[*discoveryv1.EndpointSlice](api, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")), o),
		}}
		test(w)
	})
}

// run runs the caches. Before it handlers can be added.
func (w *world) run() {
	controllerstest.Go(w, w.in.APIServices, w.in.Services, w.in.EndpointSlices)
	synctest.Wait()
}

func at(name string) client.Target {
	return client.Target{Resource: apiregistrationv1.SchemeGroupVersion.WithResource("apiservices"), Name: name}
}

func service(name string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("services"), Namespace: "ns", Name: name}
}

func slice(name string) client.Target {
	return client.Target{Resource: discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), Namespace: "ns", Name: name}
}

// remote returns an APIService of the version v1 of a group, of the service ns/api.
func remote(group string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: "v1", GroupPriorityMinimum: 1, VersionPriority: 1,
			Service: &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "api"},
		},
	}
}

// local returns an APIService of a version that the server itself serves, with a label.
func local(gv schema.GroupVersion, managed string) *apiregistrationv1.APIService {
	s := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
		Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 1, VersionPriority: 1},
	}
	if managed != "" {
		s.Labels = map[string]string{apiservice.ManagedLabel: managed}
	}
	return s
}

// served returns a service of a type with a port, and its endpoint slice.
func served(kind corev1.ServiceType, port string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "api"},
		Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Name: "other", Port: 80}, {Name: port, Port: 443}}},
	}
	if kind == corev1.ServiceTypeExternalName {
		s.Spec.ExternalName = "api.example.com"
	}
	return s
}

func endpoints(of, port string, ready *bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: of + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: of}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Port: new(int32(8443))}},
	}
}

func (w *world) add(objects ...informer.Object) {
	w.Helper()
	for _, obj := range objects {
		controllerstest.Add(w, w.api, obj)
	}
	synctest.Wait()
}

func (w *world) patch(of client.Target, data string) {
	w.Helper()
	patch := client.Patch{Type: types.MergePatchType, Data: []byte(data)}
	if _, err := w.api.Others.Patch(w.Context(), of, patch, metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) delete(of client.Target) {
	w.Helper()
	if err := w.api.Others.Delete(w.Context(), of, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// get returns an APIService, or nil.
func (w *world) get(name string) *apiregistrationv1.APIService {
	w.Helper()
	obj, err := w.api.Others.Get(w.Context(), at(name))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		w.Fatal(err)
	}
	return obj.(*apiregistrationv1.APIService)
}

// reconcile reconciles a name, and returns after how long it is to be done again.
func (w *world) reconcile(c controllers.Controller, name string) (time.Duration, error) {
	result, err := c.Reconcile(w.Context(), controllers.Key{Name: name})
	synctest.Wait()
	return result.RequeueAfter, err
}
