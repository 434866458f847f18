package environment_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/environment"
	"github.com/keelson-dev/keelson/kubelet/environment/expansion"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

var (
	_ environment.Services = (*informer.Informer[*corev1.Service])(nil)
	_ environment.Files    = (*volume.Volumes)(nil)
)

// objects holds config maps and secrets by their names.
type objects map[string]map[string]string

func (o objects) ConfigMap(_ context.Context, ns, name string) (*corev1.ConfigMap, error) {
	if name == "refused" {
		return nil, errors.New("refused")
	}
	if data, ok := o["configmap "+name]; ok && ns == "ns" {
		return &corev1.ConfigMap{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func (o objects) Secret(_ context.Context, ns, name string) (*corev1.Secret, error) {
	if name == "refused" {
		return nil, errors.New("refused")
	}
	if data, ok := o["secret "+name]; ok && ns == "ns" {
		s := &corev1.Secret{Data: map[string][]byte{}}
		for k, v := range data {
			s.Data[k] = []byte(v)
		}
		return s, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

// services are a cluster's services; nil means that they have not been read.
type services []*corev1.Service

func (s services) WaitSynced(ctx context.Context) error {
	if s == nil {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s services) List(ns string) (list []*corev1.Service) {
	for _, x := range s {
		if x.Namespace == ns {
			list = append(list, x)
		}
	}
	return list
}

type envFiles map[string]string

func (f envFiles) Open(_ *corev1.Pod, volume, path string) (io.ReadCloser, error) {
	if text, ok := f[volume+"/"+path]; ok {
		return io.NopCloser(strings.NewReader(text)), nil
	}
	if path == "refused" {
		return nil, fs.ErrPermission
	}
	return nil, fs.ErrNotExist
}

func service(ns, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func env(pairs ...string) (list []corev1.EnvVar) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
	}
	return list
}

func from(name string, source corev1.EnvVarSource) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &source}
}

func field(name, path string) corev1.EnvVar {
	return from(name, corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}})
}

func configKey(name, object, key string, optional *bool) corev1.EnvVar {
	return from(name, corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key, Optional: optional}})
}

func secretKey(name, object, key string, optional *bool) corev1.EnvVar {
	return from(name, corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key, Optional: optional}})
}

func fileKey(name, volume, path, key string, optional *bool) corev1.EnvVar {
	return from(name, corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: volume, Path: path, Key: key, Optional: optional}})
}

func fromConfig(prefix, name string, optional *bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional}}
}

func fromSecret(prefix, name string, optional *bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional}}
}

func show(list []cri.EnvVar) string {
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = e.Name + "=" + e.Value
	}
	return strings.Join(parts, " ")
}

func TestEnvironment(t *testing.T) {
	yes := new(true)
	source := objects{
		"configmap c": {"one": "1", "two": "2", "with.dot": "3"}, "secret s": {"one": "S1", "password": "hush"},
	}
	resourceOf := func(container, name, divisor string) corev1.EnvVar {
		return from("R", corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: container, Resource: name, Divisor: resource.MustParse(divisor)}})
	}
	for name, c := range map[string]struct {
		from      []corev1.EnvFromSource
		env       []corev1.EnvVar
		want, err string
	}{
		"nothing":       {},
		"plain":         {env: env("A", "1", "B", "", "A", "2"), want: "A=2 B="},
		"expand":        {env: env("A", "1", "B", "$(A)-$(NONE)-$$(A)-$A", "C", "$(B)", "D", "$(E)", "E", "e"), want: "A=1 B=1-$(NONE)-$(A)-$A C=1-$(NONE)-$(A)-$A D=$(E) E=e"},
		"self":          {env: env("A", "1", "A", "$(A)$(A)"), want: "A=11"},
		"fromConfig":    {from: []corev1.EnvFromSource{fromConfig("", "c", nil)}, want: "one=1 two=2 with.dot=3"},
		"prefix":        {from: []corev1.EnvFromSource{fromConfig("P_", "c", nil), fromSecret("S-", "s", nil)}, want: "P_one=1 P_two=2 P_with.dot=3 S-one=S1 S-password=hush"},
		"later":         {from: []corev1.EnvFromSource{fromConfig("", "c", nil), fromSecret("", "s", nil)}, env: env("two", "$(one)"), want: "one=S1 two=S1 with.dot=3 password=hush"},
		"noConfig":      {from: []corev1.EnvFromSource{fromConfig("", "no", nil)}, err: `configmaps "no" not found`},
		"noSecret":      {from: []corev1.EnvFromSource{fromSecret("", "no", nil)}, err: `secrets "no" not found`},
		"optional":      {from: []corev1.EnvFromSource{fromConfig("", "no", yes), fromSecret("", "no", yes)}},
		"key":           {env: []corev1.EnvVar{configKey("A", "c", "one", nil), secretKey("B", "s", "password", nil)}, want: "A=1 B=hush"},
		"optionalKey":   {env: []corev1.EnvVar{configKey("A", "c", "no", yes), secretKey("B", "s", "no", yes), configKey("C", "no", "x", yes), secretKey("D", "no", "x", yes)}},
		"noKey":         {env: []corev1.EnvVar{configKey("A", "c", "no", nil)}, err: "couldn't find key no in ConfigMap ns/c"},
		"noSecretKey":   {env: []corev1.EnvVar{secretKey("A", "s", "no", nil)}, err: "couldn't find key no in Secret ns/s"},
		"noMap":         {env: []corev1.EnvVar{configKey("A", "no", "x", nil)}, err: `configmaps "no" not found`},
		"noSecretThere": {env: []corev1.EnvVar{secretKey("A", "no", "x", nil)}, err: `secrets "no" not found`},
		"valueWins":     {env: []corev1.EnvVar{{Name: "A", Value: "x", ValueFrom: &corev1.EnvVarSource{}}}, want: "A=x"},
		"fields": {env: []corev1.EnvVar{
			field("N", "metadata.name"), field("L", "metadata.labels['l']"), field("NODE", "spec.nodeName"), field("HOST", "spec.host"), field("SA", "spec.serviceAccountName"),
			field("IP", "status.podIP"), field("IPS", "status.podIPs"), field("H", "status.hostIP"), field("HS", "status.hostIPs"),
		}, want: "N=web L=v NODE=node HOST=node SA=default IP=10.0.0.5 IPS=10.0.0.5,fd00::5 H=192.168.0.1 HS=192.168.0.1,fd01::1"},
		"badField":            {env: []corev1.EnvVar{field("A", "status.phase")}, err: "unsupported fieldPath: status.phase"},
		"badVersion":          {env: []corev1.EnvVar{from("A", corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v2", FieldPath: "metadata.name"}})}, err: "unsupported pod version: v2"},
		"own":                 {env: []corev1.EnvVar{resourceOf("", "limits.cpu", "1m")}, want: "R=250"},
		"otherNode":           {env: []corev1.EnvVar{resourceOf("other", "limits.memory", "1Gi")}, want: "R=4"},
		"ofInit":              {env: []corev1.EnvVar{resourceOf("init", "limits.memory", "1Gi")}, want: "R=0"},
		"noContainer":         {env: []corev1.EnvVar{resourceOf("nobody", "limits.cpu", "1")}, err: "container nobody not found"},
		"badResource":         {env: []corev1.EnvVar{resourceOf("", "limits.gpu", "1")}, err: "unsupported container resource : limits.gpu"},
		"file":                {env: []corev1.EnvVar{fileKey("A", "v", "f", "KEY", nil)}, want: "A=from file"},
		"fileNoKey":           {env: []corev1.EnvVar{fileKey("A", "v", "f", "NO", nil)}, err: `environment variable key "NO" not found in file "f"`},
		"fileOptional":        {env: []corev1.EnvVar{fileKey("A", "v", "f", "NO", yes)}},
		"fileNoVolume":        {env: []corev1.EnvVar{fileKey("A", "w", "f", "KEY", yes)}, err: `cannot find the volume "w" referenced by FileKeyRef`},
		"fileBad":             {env: []corev1.EnvVar{fileKey("A", "v", "bad", "KEY", nil)}, err: "couldn't parse env file"},
		"fileMissing":         {env: []corev1.EnvVar{fileKey("A", "v", "no", "KEY", nil)}, err: "couldn't parse env file"},
		"fileOptionalMissing": {env: []corev1.EnvVar{fileKey("A", "v", "no", "KEY", yes)}},
		"notOptional":         {env: []corev1.EnvVar{configKey("A", "no", "x", new(false))}, err: `configmaps "no" not found`},
		"notOptionalFrom":     {from: []corev1.EnvFromSource{fromSecret("", "no", new(false))}, err: `secrets "no" not found`},
		"refused":             {env: []corev1.EnvVar{configKey("A", "refused", "x", yes)}, err: "refused"},
		"refusedSecret":       {env: []corev1.EnvVar{secretKey("A", "refused", "x", yes)}, err: "refused"},
		"fileRefused":         {env: []corev1.EnvVar{fileKey("A", "v", "refused", "KEY", yes)}, err: "couldn't parse env file"},
		"noVersion":           {env: []corev1.EnvVar{from("A", corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}})}, want: "A=web"},
		"emptyConfig":         {env: []corev1.EnvVar{from("A", corev1.EnvVarSource{})}, want: "A="},
		"emptyEnvFroms":       {from: []corev1.EnvFromSource{{Prefix: "X"}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Labels: map[string]string{"l": "v"}},
				Spec: corev1.PodSpec{
					NodeName: "node", ServiceAccountName: "default", Volumes: []corev1.Volume{{Name: "v"}},
					InitContainers: []corev1.Container{{Name: "init"}},
					Containers: []corev1.Container{{Name: "main", EnvFrom: c.from, Env: c.env, Resources: corev1.ResourceRequirements{
						Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
					}}, {Name: "other"}},
				},
			}
			e := environment.New(environment.Sources{Objects: source, Files: envFiles{"v/f": "OTHER='x'\nKEY='from file'\n", "v/bad": "KEY=bare"}}, environment.Options{})
			got, warnings, err := e.Environment(t.Context(), kubelet.EnvironmentRequest{
				Pod: pod, Container: &pod.Spec.Containers[0], IPs: []string{"10.0.0.5", "fd00::5"}, HostIPs: []string{"192.168.0.1", "fd01::1"},
				Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
			})
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || len(warnings) > 0 || show(got) != c.want {
				t.Errorf("%s, %v, %v\nwant %s", show(got), warnings, err, c.want)
			}
		})
	}
}

func TestWithoutSources(t *testing.T) {
	e := environment.New(environment.Sources{}, environment.Options{})
	for _, v := range []corev1.EnvVar{configKey("A", "c", "k", new(true)), secretKey("A", "s", "k", nil), fileKey("A", "v", "f", "k", nil), field("A", "status.hostIP")} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{v}}}, Volumes: []corev1.Volume{{Name: "v"}}}}
		if _, _, err := e.Environment(t.Context(), kubelet.EnvironmentRequest{Pod: pod, Container: &pod.Spec.Containers[0]}); err == nil {
			t.Errorf("%v has a value", v)
		}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{field("A", "status.podIP"), field("B", "status.podIPs")}}}}}
	got, _, err := e.Environment(t.Context(), kubelet.EnvironmentRequest{Pod: pod, Container: &pod.Spec.Containers[0]})
	if err != nil || show(got) != "A= B=" {
		t.Errorf("without addresses: %s, %v", show(got), err)
	}
}

func TestServices(t *testing.T) {
	http := corev1.ServicePort{Port: 80, Name: "http"}
	all := services{
		service("ns", "web-app", "10.1.0.1", corev1.ServicePort{Port: 80, Name: "http-x", Protocol: corev1.ProtocolTCP}, corev1.ServicePort{Port: 53, Name: "dns", Protocol: corev1.ProtocolUDP}),
		service("ns", "headless", "None", http), service("ns", "external", "", http), service("elsewhere", "other", "10.1.0.9", http),
		service("default", "kubernetes", "10.1.0.2", corev1.ServicePort{Port: 443, Name: "https"}), service("default", "other", "10.1.0.3", http), service("ns", "v6", "fd00::1", corev1.ServicePort{Port: 1}),
	}
	const kubernetes = "KUBERNETES_SERVICE_HOST=10.1.0.2 KUBERNETES_SERVICE_PORT=443 KUBERNETES_SERVICE_PORT_HTTPS=443 KUBERNETES_PORT=tcp://10.1.0.2:443 " +
		"KUBERNETES_PORT_443_TCP=tcp://10.1.0.2:443 KUBERNETES_PORT_443_TCP_PROTO=tcp KUBERNETES_PORT_443_TCP_PORT=443 KUBERNETES_PORT_443_TCP_ADDR=10.1.0.2"
	const links = " V6_SERVICE_HOST=fd00::1 V6_SERVICE_PORT=1 V6_PORT=tcp://[fd00::1]:1 V6_PORT_1_TCP=tcp://[fd00::1]:1 V6_PORT_1_TCP_PROTO=tcp V6_PORT_1_TCP_PORT=1 V6_PORT_1_TCP_ADDR=fd00::1" +
		" WEB_APP_SERVICE_HOST=10.1.0.1 WEB_APP_SERVICE_PORT=80 WEB_APP_SERVICE_PORT_HTTP_X=80 WEB_APP_SERVICE_PORT_DNS=53 WEB_APP_PORT=tcp://10.1.0.1:80" +
		" WEB_APP_PORT_80_TCP=tcp://10.1.0.1:80 WEB_APP_PORT_80_TCP_PROTO=tcp WEB_APP_PORT_80_TCP_PORT=80 WEB_APP_PORT_80_TCP_ADDR=10.1.0.1" +
		" WEB_APP_PORT_53_UDP=udp://10.1.0.1:53 WEB_APP_PORT_53_UDP_PROTO=udp WEB_APP_PORT_53_UDP_PORT=53 WEB_APP_PORT_53_UDP_ADDR=10.1.0.1"
	e := environment.New(environment.Sources{Services: all}, environment.Options{})
	ask := func(ns string, links *bool, vars ...string) string {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns}, Spec: corev1.PodSpec{EnableServiceLinks: links, Containers: []corev1.Container{{Env: env(vars...)}}}}
		got, _, err := e.Environment(t.Context(), kubelet.EnvironmentRequest{Pod: pod, Container: &pod.Spec.Containers[0]})
		if err != nil {
			t.Fatal(err)
		}
		return show(got)
	}
	for _, c := range []struct{ got, want string }{
		{ask("ns", new(true)), kubernetes + links}, {ask("ns", nil), kubernetes + links}, {ask("ns", new(false)), kubernetes}, {ask("empty", new(true)), kubernetes},
		{ask("empty", nil, "API", "$(KUBERNETES_SERVICE_HOST)", "KUBERNETES_PORT", "mine"), "API=10.1.0.2 KUBERNETES_PORT=mine " + strings.Replace(kubernetes, "KUBERNETES_PORT=tcp://10.1.0.2:443 ", "", 1)},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
	// Another service of that name does not replace it, nor is it included without links.
	own := services{service("ns", "kubernetes", "10.9.9.9", http), all[4]}
	e = environment.New(environment.Sources{Services: own}, environment.Options{})
	if got := ask("ns", new(false)); got != kubernetes {
		t.Errorf("got %s", got)
	}
}

func TestServicesNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := environment.New(environment.Sources{Services: services(nil)}, environment.Options{})
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: env("A", "1")}}}}
		start := time.Now()
		_, _, err := e.Environment(t.Context(), kubelet.EnvironmentRequest{Pod: pod, Container: &pod.Spec.Containers[0]})
		if err == nil || err.Error() != "services have not yet been read at least once, cannot construct envvars" || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		if got, _, err := e.Environment(t.Context(), kubelet.EnvironmentRequest{Pod: pod, Container: &pod.Spec.Containers[0]}); err != nil || show(got) != "A=1" {
			t.Errorf("a static pod: %s, %v", show(got), err)
		}
	})
}

func Example() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	pod.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{
		field("POD", "metadata.name"), {Name: "GREETING", Value: "hello from $(POD)"},
	}, Args: []string{"echo", "$(GREETING)", "$$(HOME)"}}}
	e := environment.New(environment.Sources{}, environment.Options{})
	vars, _, err := e.Environment(context.Background(), kubelet.EnvironmentRequest{Pod: pod, Container: &pod.Spec.Containers[0]})
	fmt.Println(vars, err)
	fmt.Printf("%q\n", expansion.Args(pod.Spec.Containers[0].Args, vars))
	// Output:
	// [{POD web} {GREETING hello from web}] <nil>
	// ["echo" "hello from web" "$(HOME)"]
}

// counting counts reads.
type counting struct {
	objects
	configMaps, secrets int
}

func (c *counting) ConfigMap(ctx context.Context, ns, name string) (*corev1.ConfigMap, error) {
	c.configMaps++
	return c.objects.ConfigMap(ctx, ns, name)
}

func (c *counting) Secret(ctx context.Context, ns, name string) (*corev1.Secret, error) {
	c.secrets++
	return c.objects.Secret(ctx, ns, name)
}

// openFile counts how often it is closed.
type openFile struct {
	io.Reader
	closed *int
}

func (f openFile) Open(*corev1.Pod, string, string) (io.ReadCloser, error) { return f, nil }
func (f openFile) Close() error                                            { *f.closed++; return nil }

// Every object is read once per container, however many variables refer to it, and opened files are closed.
func TestReadOnce(t *testing.T) {
	source, closed := &counting{objects: objects{"configmap c": {"one": "1", "two": "2"}, "secret s": {"one": "S1", "two": "S2"}}}, 0
	e := environment.New(environment.Sources{Objects: source, Files: openFile{strings.NewReader("KEY='x'"), &closed}}, environment.Options{})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v"}}, Containers: []corev1.Container{{
		EnvFrom: []corev1.EnvFromSource{fromConfig("", "c", nil), fromSecret("S", "s", nil)},
		Env: []corev1.EnvVar{
			configKey("A", "c", "one", nil), configKey("B", "c", "two", nil), secretKey("C", "s", "one", nil), secretKey("D", "s", "two", nil), fileKey("E", "v", "f", "KEY", nil),
		},
	}}}}
	got, _, err := e.Environment(t.Context(), kubelet.EnvironmentRequest{Pod: pod, Container: &pod.Spec.Containers[0]})
	if want := "one=1 two=2 Sone=S1 Stwo=S2 A=1 B=2 C=S1 D=S2 E=x"; err != nil || show(got) != want {
		t.Errorf("%s, %v", show(got), err)
	}
	if source.configMaps != 1 || source.secrets != 1 || closed != 1 {
		t.Errorf("%d configmaps and %d secrets read, %d files closed", source.configMaps, source.secrets, closed)
	}
}

// A pod of the API waits for services, with links or without; a static pod must not.
func TestWhoWaitsForServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := environment.New(environment.Sources{Services: services(nil)}, environment.Options{})
		for source, waits := range map[string]bool{"none": true, "api": true, "file": false} {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
			if source != "none" {
				pod.Annotations = map[string]string{"kubernetes.io/config.source": source}
			}
			if _, _, err := e.Environment(t.Context(), kubelet.EnvironmentRequest{Pod: pod, Container: &pod.Spec.Containers[0]}); (err != nil) != waits {
				t.Errorf("%q: %v", source, err)
			}
		}
	})
}

func TestServicesThatDoNotCount(t *testing.T) {
	port := corev1.ServicePort{Port: 1}
	other := service("default", "other", "10.0.0.3", port)
	list := []*corev1.Service{
		service("default", "kubernetes", "10.0.0.1", port), other, service("ns", "noports", "10.0.0.4"), service("ns", "kubernetes", "10.0.0.5", port),
		service("elsewhere", "kubernetes", "10.0.0.6", port), service("ns", "headless", "None", port), service("ns", "noip", "", port),
	}
	for _, v := range environment.ServiceVariables(list, "ns", false) {
		if strings.HasSuffix(v.Name, "_SERVICE_HOST") && (v.Name != "KUBERNETES_SERVICE_HOST" || v.Value != "10.0.0.1") {
			t.Errorf("%s=%s", v.Name, v.Value)
		}
	}
	hosts := map[string]string{}
	for _, v := range environment.ServiceVariables(list, "ns", true) {
		if strings.HasSuffix(v.Name, "_SERVICE_HOST") {
			hosts[v.Name] = v.Value
		}
	}
	if len(hosts) != 1 || hosts["KUBERNETES_SERVICE_HOST"] != "10.0.0.5" {
		t.Errorf("%v", hosts)
	}
}
