package trial

import (
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
)

// Server is a client of a server that answers as a test says, whatever caches show, and changes nothing. It is for tests
// that call Reconcile themselves. The zero value answers that nothing exists, and that everything was written.
type Server struct {
	mu      sync.Mutex
	objects map[string]runtime.Object
	errs    map[string]error
	asked   []string
	sent    any
	written runtime.Object
}

// Answer makes an object the answer to all requests about a resource, such as "pods", or about one object, such as
// "pods ns/web".
func (s *Server) Answer(about string, obj runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string]runtime.Object{}
	}
	s.objects[about] = obj
}

// Fail makes an error the answer to requests, such as "get pods" or "patch pods/status"; nil ends that.
func (s *Server) Fail(request string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.errs == nil {
		s.errs = map[string]error{}
	}
	s.errs[request] = err
}

// Take returns the requests since the last Take, such as "get pods" or "patch pods/status".
func (s *Server) Take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return slices.Clone(asked)
}

// Sent returns what the last request sent: the object, the data of the patch as a string, or the options of the deletion.
func (s *Server) Sent() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Written returns the last object that a creation or update has sent.
func (s *Server) Written() runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

func (s *Server) request(verb string, t client.Target, sent any, otherwise runtime.Object) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := t.Resource.Resource
	if t.Subresource != "" {
		resource += "/" + t.Subresource
	}
	s.asked = append(s.asked, verb+" "+resource)
	if sent != nil {
		s.sent = sent
	}
	if obj, ok := sent.(runtime.Object); ok {
		s.written = obj
	}
	if err := s.errs[verb+" "+resource]; err != nil {
		return nil, err
	}
	for _, about := range []string{resource + " " + t.Namespace + "/" + t.Name, resource, t.Resource.Resource} {
		if obj := s.objects[about]; obj != nil {
			return obj, nil
		}
	}
	if otherwise != nil {
		return otherwise, nil
	}
	return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
}

// Get implements client.Getter.
func (s *Server) Get(_ context.Context, t client.Target) (runtime.Object, error) {
	return s.request("get", t, nil, nil)
}

// List implements client.Lister.
func (s *Server) List(_ context.Context, t client.Target, _ metav1.ListOptions) (runtime.Object, error) {
	return s.request("list", t, nil, nil)
}

// Create implements client.Creator. Without another answer, it returns what was sent, with the name "generated" if it has
// none.
func (s *Server) Create(_ context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	created := obj.DeepCopyObject()
	if about, err := meta.Accessor(created); err == nil && about.GetName() == "" {
		about.SetName("generated")
	}
	return s.request("create", t, obj, created)
}

// Update implements client.Updater. Without another answer, it returns what was sent.
func (s *Server) Update(_ context.Context, t client.Target, obj runtime.Object, _ metav1.UpdateOptions) (runtime.Object, error) {
	return s.request("update", t, obj, obj)
}

// Patch implements client.Patcher.
func (s *Server) Patch(_ context.Context, t client.Target, p client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	return s.request("patch", t, string(p.Data), &metav1.PartialObjectMetadata{})
}

// Delete implements client.Deleter.
func (s *Server) Delete(_ context.Context, t client.Target, o metav1.DeleteOptions) error {
	_, err := s.request("delete", t, o, &metav1.PartialObjectMetadata{})
	return err
}
