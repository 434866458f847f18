package initializers_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/admission/initializers"
	"github.com/keelson-dev/keelson/cluster"
	clusterinitializers "github.com/keelson-dev/keelson/cluster/initializers"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

const (
	first  = "first.example.com"
	second = "second.example.com"
)

// world is a cluster whose secrets and pods are initialized by the first initializer, and secrets then by the second.
type world struct {
	*testing.T
	*cluster.Cluster
	client kubernetes.Interface
}

func start(t *testing.T, o cluster.Options) *world {
	t.Helper()
	o.Extensions = append(o.Extensions, clusterinitializers.Extension())
	if o.Components == nil {
		o.Components, o.Disable = []component.Component{}, []string{"ServiceAccount"}
	}
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{t, c, clientOf(t, c.Config())}
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

const usual = `{"kind":"InitializerConfiguration","apiVersion":"admissionregistration.k8s.io/v1alpha1","metadata":{"name":"usual"},"initializers":[
	{"name":"first.example.com","rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["secrets","pods"]}]},
	{"name":"second.example.com","rules":[{"apiGroups":[""],"apiVersions":["*"],"resources":["secrets"]}]}]}`

const configurations = "/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations"

func (w *world) configure(configuration string) {
	w.Helper()
	if err := w.client.CoreV1().RESTClient().Post().AbsPath(configurations).Body([]byte(configuration)).Do(w.Context()).Error(); err != nil {
		w.Fatal(err)
	}
}

// secret creates a secret and delivers what comes of it.
func (w *world) secret(ctx context.Context, name string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.client.CoreV1().Secrets("default").Create(ctx, secretOf(name), metav1.CreateOptions{})
		done <- err
	}()
	synctest.Wait()
	return done
}

func secretOf(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": "1234"}}
}

// pending reads a secret that may be hidden.
func (w *world) pending(name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := w.client.CoreV1().RESTClient().Get().Namespace("default").Resource("secrets").Name(name).
		Param("includeUninitialized", "true").Do(w.Context()).Into(s)
	return s, err
}

// act has an initializer change a secret.
func (w *world) act(name string, change func(*corev1.Secret) error) {
	w.Helper()
	s, err := w.pending(name)
	if err == nil {
		err = change(s)
	}
	if err == nil {
		_, err = w.client.CoreV1().Secrets("default").Update(w.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func done(initializer string) func(*corev1.Secret) error {
	return func(s *corev1.Secret) error { return initializers.Done(s, initializer) }
}

// hidden checks that nobody sees a secret.
func (w *world) hidden(name string) {
	w.Helper()
	secrets := w.client.CoreV1().Secrets("default")
	if _, err := secrets.Get(w.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.Errorf("get: %v", err)
	}
	list, err := secrets.List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range list.Items {
		if s.Name == name {
			w.Errorf("list has %s", name)
		}
	}
}

func waits(t *testing.T, result <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		t.Fatalf("it does not wait: %v", err)
	default:
	}
}

func returns(t *testing.T, result <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		return err
	default:
		t.Fatal("it still waits")
		return nil
	}
}

func TestInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		if err := returns(t, w.secret(t.Context(), "before")); err != nil {
			t.Fatalf("without a configuration: %v", err)
		}
		w.configure(usual)
		seen, err := w.client.CoreV1().Secrets("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer seen.Stop()
		if e := <-seen.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.Secret).Name != "before" {
			t.Errorf("%v", e)
		}
		created := w.secret(t.Context(), "one")
		waits(t, created)
		w.hidden("one")
		s, err := w.pending("one")
		if err != nil || s.Annotations[initializers.Annotation] != `{"pending":[{"name":"first.example.com"},{"name":"second.example.com"}]}` {
			t.Fatalf("%v, %v", s.Annotations, err)
		}
		if initializers.Next(s) != first || !errors.Is(initializers.Done(s, second), initializers.ErrNotNext) {
			t.Errorf("next is %q", initializers.Next(s))
		}
		w.act("one", done(first))
		waits(t, created)
		w.hidden("one")
		select {
		case e := <-seen.ResultChan():
			t.Errorf("the watch saw %v", e)
		default:
		}
		w.act("one", done(second))
		if err := returns(t, created); err != nil {
			t.Error(err)
		}
		e := <-seen.ResultChan()
		s, _ = e.Object.(*corev1.Secret)
		if e.Type != watch.Added || s.Name != "one" || len(s.Annotations) != 0 {
			t.Errorf("%v", e)
		}
		if s, err = w.client.CoreV1().Secrets("default").Get(t.Context(), "one", metav1.GetOptions{}); err != nil || s.Annotations != nil {
			t.Errorf("%v, %v", s, err)
		}
	})
}

func TestRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		w.configure(usual)
		created := w.secret(t.Context(), "one")
		all, err := w.watchAll()
		if err != nil {
			t.Fatal(err)
		}
		defer all.Stop()
		<-all.ResultChan()
		w.act("one", func(s *corev1.Secret) error {
			s.Finalizers = []string{"example.com/keep"}
			return initializers.Reject(s, first, metav1.Status{Message: "the password is too short", Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		})
		err = returns(t, created)
		if !apierrors.IsInvalid(err) || err.Error() != "the password is too short" {
			t.Errorf("the creator is told %v", err)
		}
		if _, err := w.pending("one"); !apierrors.IsNotFound(err) {
			t.Errorf("it is there: %v", err)
		}
		for _, want := range []watch.EventType{watch.Modified, watch.Deleted} {
			e := <-all.ResultChan()
			s, _ := e.Object.(*corev1.Secret)
			state, err := initializers.Of(s)
			if e.Type != want || err != nil || state == nil || state.Result == nil || state.Result.Message != "the password is too short" {
				t.Errorf("%v", e)
			}
		}
		w.configureNothing()
		if err := returns(t, w.secret(t.Context(), "one")); err != nil {
			t.Errorf("the name is taken: %v", err)
		}
	})
}

func (w *world) watchAll() (watch.Interface, error) {
	return w.client.CoreV1().RESTClient().Get().Namespace("default").Resource("secrets").
		Param("includeUninitialized", "true").Param("watch", "true").Watch(w.Context())
}

func (w *world) configureNothing() {
	w.Helper()
	if err := w.client.CoreV1().RESTClient().Delete().AbsPath(configurations).Name("usual").Do(w.Context()).Error(); err != nil {
		w.Fatal(err)
	}
}

func TestCreatorLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		w.configure(usual)
		ctx, leave := context.WithCancel(t.Context())
		created := w.secret(ctx, "one")
		waits(t, created)
		leave()
		if err := returns(t, created); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		impatient := w.secret(t.Context(), "two")
		time.Sleep(2 * time.Minute)
		if err := returns(t, impatient); !apierrors.IsTimeout(err) {
			t.Error(err)
		}
		for _, name := range []string{"one", "two"} {
			w.hidden(name)
			if err := returns(t, w.secret(t.Context(), name)); !apierrors.IsAlreadyExists(err) {
				t.Errorf("created again: %v", err)
			}
			w.act(name, done(first))
			w.act(name, done(second))
			if _, err := w.client.CoreV1().Secrets("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestIncluded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		w.configure(usual)
		code := 0
		data, err := json.Marshal(secretOf("one"))
		if err != nil {
			t.Fatal(err)
		}
		err = w.client.CoreV1().RESTClient().Post().Namespace("default").Resource("secrets").Param("includeUninitialized", "true").
			SetHeader("Content-Type", "application/json").Body(data).Do(t.Context()).StatusCode(&code).Error()
		if err != nil || code != http.StatusAccepted {
			t.Errorf("create answers %d, %v", code, err)
		}
		for query, want := range map[string]int{"": 0, "true": 1, "false": 0, "1": 1} {
			r := w.client.CoreV1().RESTClient().Get().Namespace("default").Resource("secrets")
			if query != "" {
				r.Param("includeUninitialized", query)
			}
			list := &corev1.SecretList{}
			if err := r.Do(t.Context()).Into(list); err != nil || len(list.Items) != want {
				t.Errorf("%q lists %d: %v", query, len(list.Items), err)
			}
		}
	})
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		t.Cleanup(func() { _ = store.Close() })
		c, err := cluster.Start(t.Context(), cluster.Options{
			Store: store, Components: []component.Component{}, Disable: []string{"ServiceAccount"},
			Extensions: []cluster.Extension{clusterinitializers.Extension()},
		})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t, c, clientOf(t, c.Config())}
		w.configure(usual)
		one, two := w.secret(t.Context(), "one"), w.secret(t.Context(), "two")
		waits(t, one)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, created := range []<-chan error{one, two} {
			if err := returns(t, created); !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "server has timed out waiting for the initialization of secrets ") {
				t.Errorf("the creator is told %v", err)
			}
		}
		reject(t, store, "/registry/secrets/default/two")
		w = start(t, cluster.Options{Store: store})
		w.hidden("one")
		if _, err := w.pending("two"); !apierrors.IsNotFound(err) {
			t.Errorf("it is left after its rejection: %v", err)
		}
		w.act("one", done(first))
		w.hidden("one")
		w.act("one", done(second))
		if _, err := w.client.CoreV1().Secrets("default").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// reject stores a rejection as a server does that ends before it deletes the object.
func reject(t *testing.T, store storage.Store, key string) {
	t.Helper()
	rec, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := &corev1.Secret{}
	if _, err := codec.Decode(rec.Value, s); err != nil {
		t.Fatal(err)
	}
	if err := initializers.Reject(s, first, metav1.Status{Message: "no"}); err != nil {
		t.Fatal(err)
	}
	value, err := codec.Stored(corev1.SchemeGroupVersion.WithKind("Secret"), s)
	if err == nil {
		_, err = store.Update(t.Context(), key, value, rec.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		w.configure(usual)
		created, other := w.secret(t.Context(), "one"), w.secret(t.Context(), "two")
		if err := w.client.CoreV1().Secrets("default").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := returns(t, created); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "object deleted while waiting for creation") {
			t.Error(err)
		}
		waits(t, other)
		if err := w.client.CoreV1().Secrets("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := returns(t, other); !apierrors.IsInternalError(err) {
			t.Error(err)
		}
	})
}

func TestPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		w.configure(usual)
		pods := w.client.CoreV1().Pods("default")
		created := make(chan error, 1)
		go func() {
			_, err := pods.Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			}, metav1.CreateOptions{})
			created <- err
		}()
		synctest.Wait()
		get := func() *corev1.Pod {
			pod := &corev1.Pod{}
			err := w.client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("web").Param("includeUninitialized", "true").Do(t.Context()).Into(pod)
			if err != nil {
				t.Fatal(err)
			}
			return pod
		}
		pod := get()
		if pod.Status.Phase != corev1.PodPending || pod.Status.Reason != clusterinitializers.PodInitializing {
			t.Errorf("%v", pod.Status)
		}
		table := &metav1.Table{}
		data, err := w.client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Param("includeUninitialized", "true").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
		if err == nil {
			err = json.Unmarshal(data, table)
		}
		if err != nil || len(table.Rows) != 1 || table.Rows[0].Cells[2] != "PodInitializing" {
			t.Errorf("%s, %v", data, err)
		}
		if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must not update status when the object is uninitialized") {
			t.Error(err)
		}
		err = pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("bound: %v", err)
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side", Image: "busybox"})
		if err := initializers.Done(pod, first); err != nil {
			t.Fatal(err)
		}
		if pod, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil || len(pod.Spec.Containers) != 2 || pod.Status.Reason != "" {
			t.Errorf("%v, %v", pod, err)
		}
		if err := returns(t, created); err != nil {
			t.Error(err)
		}
		pod.Spec.Containers = pod.Spec.Containers[:1]
		if _, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("changed afterwards: %v", err)
		}
	})
}

func TestPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		w.configure(usual)
		_, err := w.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "writer"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets", "secrets/status"}, Verbs: []string{"get", "create", "update", "patch"}}},
		}, metav1.CreateOptions{})
		if err == nil {
			_, err = w.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "writer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "writer"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "writer"}},
			}, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		writer := clientOf(t, w.ConfigFor(cluster.User("writer"))).CoreV1().Secrets("default")
		for state, want := range map[string]string{
			`{}`:                                     `create with initializers denied`,
			`{"pending":[{"name":"a.example.com"}]}`: `create with initializers denied`,
			`[]`:                                     `must be the state of an initialization in JSON`,
		} {
			s := secretOf("mine")
			s.Annotations = map[string]string{initializers.Annotation: state}
			if _, err := writer.Create(t.Context(), s, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", state, err)
			}
		}
		created := w.secret(t.Context(), "one")
		patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
		if _, err := writer.Patch(t.Context(), "one", types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), "update to uninitialized resource denied") {
			t.Errorf("changed by a writer: %v", err)
		}
		waits(t, created)
		admin := w.client.CoreV1().Secrets("default")
		s := secretOf("at-once")
		s.Annotations = map[string]string{initializers.Annotation: `{}`, "other": "stays"}
		if s, err = admin.Create(t.Context(), s, metav1.CreateOptions{}); err != nil || len(s.Annotations) != 1 {
			t.Errorf("around the initializers: %v, %v", s, err)
		}
		s.Annotations[initializers.Annotation] = `{"pending":[{"name":"a.example.com"}]}`
		if _, err := admin.Update(t.Context(), s, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "field is immutable once initialization has completed") {
			t.Errorf("hidden again: %v", err)
		}
		for _, to := range []string{`{}`, `{"pending":[{"name":"second.example.com"},{"name":"first.example.com"}]}`, `{"pending":[{"name":"first.example.com"}]}`} {
			s, err := w.pending("one")
			if err != nil {
				t.Fatal(err)
			}
			s.Annotations[initializers.Annotation] = to
			if _, err := admin.Update(t.Context(), s, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "only the first initializer may be removed") {
				t.Errorf("%s: %v", to, err)
			}
		}
	})
}

func TestConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{})
		post := w.client.CoreV1().RESTClient().Post().AbsPath(configurations)
		err := post.Body([]byte(`{"metadata":{"name":"bad"},"initializers":[{"name":"short","rules":[{"apiGroups":["*","apps"],"apiVersions":[""],"resources":["pods/log"]},{}]}]}`)).Do(t.Context()).Error()
		for _, want := range []string{
			`initializers[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots`,
			`initializers[0].rules[0].apiGroups: Invalid value: ["*","apps"]: if '*' is present, must not specify other API groups`,
			`initializers[0].rules[0].apiVersions[0]: Required value`,
			`initializers[0].rules[0].resources[0]: Invalid value: "pods/log": must not specify subresources`,
			`initializers[0].rules[1].resources: Required value`,
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nlacks %s", err, want)
			}
		}
		w.configure(strings.NewReplacer("usual", "b", `["v1"]`, `["*"]`).Replace(usual))
		w.configure(strings.NewReplacer("usual", "a", "first", "zeroth", "second", "half").Replace(usual))
		w.secret(t.Context(), "one")
		s, err := w.pending("one")
		if err != nil || s.Annotations[initializers.Annotation] != `{"pending":[{"name":"zeroth.example.com"},{"name":"half.example.com"},{"name":"first.example.com"},{"name":"second.example.com"}]}` {
			t.Errorf("%v, %v", s.Annotations, err)
		}
	})
}

func TestNamespaceIsEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, cluster.Options{Components: cluster.DefaultComponents()})
		w.configure(usual)
		ctx := t.Context()
		if _, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		created := make(chan error, 1)
		go func() {
			_, err := w.client.CoreV1().Secrets("short").Create(ctx, secretOf("one"), metav1.CreateOptions{})
			created <- err
		}()
		time.Sleep(time.Second)
		waits(t, created)
		if err := w.client.CoreV1().Namespaces().Delete(ctx, "short", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if err := returns(t, created); err == nil {
			t.Error("it was created")
		}
		if _, err := w.client.CoreV1().Namespaces().Get(ctx, "short", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}
