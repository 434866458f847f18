package generate_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/distribution/reference"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/client/generate"
)

// kinds are the kinds of objects.
func kinds(objects []runtime.Object) string {
	var all []string
	for _, obj := range objects {
		all = append(all, obj.GetObjectKind().GroupVersionKind().GroupVersion().String()+" "+obj.GetObjectKind().GroupVersionKind().Kind)
	}
	return strings.Join(all, ", ")
}

func TestRunInfersTheKind(t *testing.T) {
	web := generate.Container{Image: "nginx", Port: 80}
	for name, test := range map[string]struct {
		options generate.RunOptions
		want    string
		restart corev1.RestartPolicy
	}{
		"by default":            {generate.RunOptions{}, "apps/v1 Deployment", ""},
		"Always":                {generate.RunOptions{Restart: "Always"}, "apps/v1 Deployment", ""},
		"OnFailure":             {generate.RunOptions{Restart: "OnFailure"}, "batch/v1 Job", "OnFailure"},
		"Never":                 {generate.RunOptions{Restart: "Never"}, "v1 Pod", "Never"},
		"exposed":               {generate.RunOptions{Expose: true}, "apps/v1 Deployment, v1 Service", ""},
		"exposed pod":           {generate.RunOptions{Expose: true, Restart: "Never"}, "v1 Pod, v1 Service", "Never"},
		"pod by name":           {generate.RunOptions{Generator: "run-pod/v1"}, "v1 Pod", "Always"},
		"job by name":           {generate.RunOptions{Generator: "job/v1"}, "batch/v1 Job", "Never"},
		"job by name, restarts": {generate.RunOptions{Generator: "job/v1", Restart: "OnFailure"}, "batch/v1 Job", "OnFailure"},
		"deployment by name":    {generate.RunOptions{Generator: "deployment/apps.v1", Restart: "Never"}, "apps/v1 Deployment", ""},
		"controller by name":    {generate.RunOptions{Generator: "run/v1", Replicas: ptr.To[int32](2)}, "v1 ReplicationController", ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Container = web
			objects, err := generate.Run("web", test.options)
			if err != nil {
				t.Fatal(err)
			}
			if got := kinds(objects); got != test.want {
				t.Errorf("made %s, want %s", got, test.want)
			}
			if got := podSpec(t, objects[0]).RestartPolicy; got != test.restart {
				t.Errorf("restart policy %q, want %q", got, test.restart)
			}
		})
	}
}

func podSpec(t *testing.T, obj runtime.Object) *corev1.PodSpec {
	t.Helper()
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *batchv1.Job:
		return &o.Spec.Template.Spec
	case *corev1.ReplicationController:
		return &o.Spec.Template.Spec
	}
	t.Fatalf("no pods in a %T", obj)
	return nil
}

func TestRunDeployment(t *testing.T) {
	objects, err := generate.Run("web", generate.RunOptions{
		Container: generate.Container{Image: "nginx", Port: 80, Stdin: true, TTY: true},
		Labels:    "app=web", Annotations: []string{"a=b"}, Expose: true, Replicas: ptr.To[int32](1),
	})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	want := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"a": "b"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "nginx", Ports: []corev1.ContainerPort{{ContainerPort: 80}}, Stdin: true, TTY: true,
				}}},
			},
		},
	}
	if diff := cmp.Diff(want, objects[0]); diff != "" {
		t.Error(diff)
	}
	service := objects[1].(*corev1.Service)
	if diff := cmp.Diff(labels, service.Spec.Selector); diff != "" {
		t.Error(diff)
	}
}

func TestRunRefuses(t *testing.T) {
	for want, o := range map[string]generate.RunOptions{
		`generator "run/v2" not found: choose`:              {Generator: "run/v2"},
		"cannot use --replicas with --generator=job/v1":     {Replicas: ptr.To[int32](2), Restart: "OnFailure"},
		"cannot use --replicas with --generator=run-pod/v1": {Replicas: ptr.To[int32](1), Restart: "Never"},
		"invalid number of replicas -1":                     {Replicas: ptr.To[int32](-1)},
		"-i/--stdin requires that replicas is 1, found 2":   {Replicas: ptr.To[int32](2), Container: generate.Container{Stdin: true}},
		"invalid restart policy: Always: the pods of a Job": {Generator: "job/v1", Restart: "Always"},
		"invalid port 70000: must be between 1 and 65535":   {Container: generate.Container{Port: 70000}},
		"invalid port -1": {Container: generate.Container{Port: -1}},
		`invalid label key "a/b/c": a valid label key must consist of`: {Labels: "a/b/c=d"},
		`invalid label value "a=-"`:                                    {Labels: "a=-"},
	} {
		o.Container.Image = "nginx"
		_, err := generate.Run("web", o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	_, err := generate.Run("web", generate.RunOptions{Container: generate.Container{Image: "A"}})
	if !errors.Is(err, reference.ErrReferenceInvalidFormat) {
		t.Errorf("error %v", err)
	}
}

// Every kind holds names to the rule that the server has for it.
func TestNames(t *testing.T) {
	image := generate.Container{Image: "a"}
	long := strings.Repeat("a", 64)
	for kind, test := range map[string]struct {
		make      func(name string) error
		good, bad []string
	}{
		"deployment": {func(n string) error {
			return last(generate.Deployment(n, generate.DeploymentOptions{Images: []string{"a"}}))
		},
			[]string{"a.b", "1-a"}, []string{"", "A", "a_b", "-a", "a/b"}},
		"pod": {func(n string) error {
			return last(generate.Run(n, generate.RunOptions{Container: image, Restart: "Never", Labels: "a=b"}))
		}, []string{"a.b", long}, []string{"A", "a_b"}},
		"job": {func(n string) error { return last(generate.Job(n, generate.JobOptions{Image: "a"})) },
			[]string{"a.b"}, []string{"A", long}},
		"cronjob": {func(n string) error {
			return last(generate.CronJob(n, generate.CronJobOptions{Image: "a", Schedule: "@daily"}))
		}, []string{long[:52]}, []string{"A", long[:53]}},
		"service":        {func(n string) error { return last(generate.Service(n, generate.ServiceOptions{TCP: []string{"80"}})) }, []string{"a", "1a"}, []string{"a.b", long, "A"}},
		"namespace":      {func(n string) error { return last(generate.Namespace(n)) }, []string{"a"}, []string{"a.b", ""}},
		"serviceaccount": {func(n string) error { return last(generate.ServiceAccount(n)) }, []string{"a.b"}, []string{"A", ""}},
		"configmap":      {func(n string) error { return last(generate.ConfigMap(n, generate.ConfigMapOptions{})) }, []string{"a.b"}, []string{"A", ""}},
		"secret":         {func(n string) error { return last(generate.Secret(n, generate.SecretOptions{})) }, []string{"a.b"}, []string{"A", ""}},
		"quota":          {func(n string) error { return last(generate.Quota(n, generate.QuotaOptions{})) }, []string{"a.b"}, []string{"A", ""}},
		"priorityclass":  {func(n string) error { return last(generate.PriorityClass(n, generate.PriorityClassOptions{})) }, []string{"a.b"}, []string{"A", ""}},
		"rolebinding":    {func(n string) error { return last(generate.RoleBinding(n, generate.BindingOptions{Role: "r"})) }, []string{"A:b", "a_b"}, []string{"a/b", "a%b", "..", ""}},
		"clusterrolebinding": {func(n string) error {
			return last(generate.ClusterRoleBinding(n, generate.BindingOptions{ClusterRole: "r"}))
		}, []string{"system:x"}, []string{"a/b", ""}},
		"clusterrole": {func(n string) error {
			return last(generate.ClusterRole(n, generate.ClusterRoleOptions{Aggregation: "a=b"}))
		}, []string{"system:x"}, []string{"a/b", ""}},
		"poddisruptionbudget": {func(n string) error {
			return last(generate.PodDisruptionBudget(n, generate.PodDisruptionBudgetOptions{Selector: "a=b", MinAvailable: "1"}))
		}, []string{"a.b"}, []string{"A", ""}},
		"ingress": {func(n string) error { return last(generate.Ingress(n, generate.IngressOptions{DefaultBackend: "a:1"})) }, []string{"a.b"}, []string{"A", ""}},
	} {
		for _, name := range test.good {
			if err := test.make(name); err != nil {
				t.Errorf("%s %q: %v", kind, name, err)
			}
		}
		for _, name := range test.bad {
			want := "invalid " + kind + " name"
			if name == "" {
				want = "name must be specified"
			}
			if err := test.make(name); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s %q: error %v, want %q", kind, name, err, want)
			}
		}
	}
}

// last drops all but the error.
func last(_ any, err error) error { return err }

func TestContainerNames(t *testing.T) {
	d, err := generate.Deployment("web", generate.DeploymentOptions{
		Images: []string{"r.example:5000/a/b:1", "my_app.v2", "x@sha256:" + strings.Repeat("0", 64)},
		Suffix: func() string { return "zzzzz" },
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range d.Spec.Template.Spec.Containers {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"b", "my-app-v2-zzzzz", "x"}, names); diff != "" {
		t.Error(diff)
	}
	d, err = generate.Deployment("web", generate.DeploymentOptions{Images: []string{"a.b"}})
	if name := d.Spec.Template.Spec.Containers[0].Name; err != nil || !strings.HasPrefix(name, "a-b-") || len(name) != len("a-b-")+5 {
		t.Errorf("name %q, %v", name, err)
	}
}

func TestJobFromCronJob(t *testing.T) {
	c, err := generate.CronJob("tick", generate.CronJobOptions{Image: "busybox", Schedule: "@hourly"})
	if err != nil {
		t.Fatal(err)
	}
	c.UID = "1234"
	c.Spec.JobTemplate.Labels = map[string]string{"a": "b"}
	c.Spec.JobTemplate.Annotations = map[string]string{"c": "d"}
	job, err := generate.Job("now", generate.JobOptions{From: c})
	if err != nil {
		t.Fatal(err)
	}
	want := metav1.ObjectMeta{
		Name: "now", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d", "cronjob.kubernetes.io/instantiate": "manual"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "tick", UID: "1234", Controller: ptr.To(true)}},
	}
	if diff := cmp.Diff(want, job.ObjectMeta); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(c.Spec.JobTemplate.Spec, job.Spec); diff != "" {
		t.Error(diff)
	}
	if _, err := generate.Job("now", generate.JobOptions{From: c, Command: []string{"date"}}); err == nil || err.Error() != "cannot specify --from and command" {
		t.Errorf("with a command: %v", err)
	}
}

func TestExposeController(t *testing.T) {
	objects, err := generate.Run("old", generate.RunOptions{Container: generate.Container{Image: "a", Port: 80}, Generator: "run/v1"})
	if err != nil {
		t.Fatal(err)
	}
	before := objects[0].DeepCopyObject()
	service, err := generate.Expose(objects[0], generate.ExposeOptions{})
	if err != nil || service.Spec.Selector["run"] != "old" || service.Spec.Ports[0].Port != 80 {
		t.Errorf("%v, %v", service, err)
	}
	service.Spec.Selector["other"], service.Labels["other"] = "x", "y"
	if diff := cmp.Diff(before, objects[0]); diff != "" {
		t.Errorf("the exposed object: %s", diff)
	}
	for want, obj := range map[string]runtime.Object{
		"selector must be specified": &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		"couldn't retrieve selectors via --selector flag or introspection: the service has no pod selector set": &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		"couldn't retrieve selectors via --selector flag or introspection: invalid replicaset: no selectors":    &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		"invalid service name \"a.b\"": &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a.b"}},
		"cannot expose a *v1.Node":     &corev1.Node{},
		"cannot expose a Job.batch":    &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}},
	} {
		if _, err := generate.Expose(obj, generate.ExposeOptions{Port: "80"}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestSources(t *testing.T) {
	files := fstest.MapFS{
		"dir/a":      {Data: []byte("1")},
		"dir/b":      {Data: []byte{0xff}},
		"dir/link":   {Data: []byte("a"), Mode: 1 << 27}, // fs.ModeSymlink
		"values.env": {Data: []byte("HOME\nSET=x\n")},
		"long.env":   {Data: []byte("LONG=" + strings.Repeat("x", 100_000))},
	}
	m, err := generate.ConfigMap("c", generate.ConfigMapOptions{Sources: generate.Sources{Files: []string{"dir"}, FS: files}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1"}, m.Data); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string][]byte{"b": {0xff}}, m.BinaryData); diff != "" {
		t.Error(diff)
	}
	env := generate.Sources{EnvFiles: []string{"values.env"}, FS: files}
	m, err = generate.ConfigMap("c", generate.ConfigMapOptions{Sources: env})
	if diff := cmp.Diff(map[string]string{"HOME": "", "SET": "x"}, m.Data); diff != "" || err != nil {
		t.Error(diff, err)
	}
	env.Getenv = func(name string) string { return "of " + name }
	m, err = generate.ConfigMap("c", generate.ConfigMapOptions{Sources: env})
	if diff := cmp.Diff(map[string]string{"HOME": "of HOME", "SET": "x"}, m.Data); diff != "" || err != nil {
		t.Error(diff, err)
	}
	m, err = generate.ConfigMap("c", generate.ConfigMapOptions{Sources: generate.Sources{EnvFiles: []string{"long.env"}, FS: files}})
	if err != nil || len(m.Data["LONG"]) != 100_000 {
		t.Errorf("a long line: %v", err)
	}
	_, err = generate.Secret("s", generate.SecretOptions{Sources: generate.Sources{Literals: []string{"s3cr3t"}}})
	if err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("a secret in %v", err)
	}
}

func TestRoleWarns(t *testing.T) {
	var warned []string
	_, err := generate.Role("r", generate.RoleOptions{
		Verbs: []string{"get", "read"}, Resources: []string{"*"}, Warn: func(w string) { warned = append(warned, w) },
		Mapper: nothing{},
	})
	if diff := cmp.Diff([]string{"'read' is not a standard resource verb"}, warned); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := generate.Role("r", generate.RoleOptions{Verbs: []string{"get"}, Resources: []string{"pods"}}); err == nil {
		t.Error("no mapper: no error")
	}
}

func TestRecord(t *testing.T) {
	pod := &corev1.Pod{}
	if err := generate.Record("kubectl run web", pod); err != nil || pod.Annotations["kubernetes.io/change-cause"] != "kubectl run web" {
		t.Errorf("%v, %v", pod.Annotations, err)
	}
	if err := generate.Record("x", &metav1.Status{}); err == nil {
		t.Error("an object without annotations: no error")
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a=b", "a=b,c=d", "=", "a=b=c", "cpu=1,memory=1Gi", "80:http", "host/path*=svc:80,tls=s"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = generate.Labels(text)
		_, _ = generate.Resources(text)
		_, _ = generate.Env([]string{text})
		_, _ = generate.Annotations([]string{text})
		_, _ = generate.Service("s", generate.ServiceOptions{TCP: []string{text}})
		_, _ = generate.Ingress("i", generate.IngressOptions{Rules: []string{text}, DefaultBackend: text})
		_, _ = generate.Role("r", generate.RoleOptions{Verbs: []string{"get"}, Resources: []string{text}, Mapper: nothing{}})
		_, _ = generate.ConfigMap("c", generate.ConfigMapOptions{Sources: generate.Sources{Files: []string{text}, FS: fstest.MapFS{}}})
		_, _ = generate.ConfigMap("c", generate.ConfigMapOptions{Sources: generate.Sources{
			EnvFiles: []string{"e"}, FS: fstest.MapFS{"e": {Data: []byte(text)}},
		}})
		_, _ = generate.Expose(&corev1.Pod{}, generate.ExposeOptions{Name: "a", Port: text, TargetPort: text, Selector: text})
		_, _ = generate.PodDisruptionBudget("p", generate.PodDisruptionBudgetOptions{Selector: text, MinAvailable: text})
		_ = generate.Image(text)
	})
}
