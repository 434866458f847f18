package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/environment/downward"
	"github.com/keelson-dev/keelson/kubelet/environment/expansion"
)

// Objects reads the objects that variables refer to. For a missing object, apierrors.IsNotFound reports true for the
// error. The objects are shared and only read.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) // reads a config map
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)       // reads a secret
}

// Services reads the cluster's services; *informer.Informer[*corev1.Service] implements it.
type Services interface {
	// WaitSynced returns when all services that existed when it was called are known.
	WaitSynced(ctx context.Context) error
	// List returns the services of a namespace, or all services if it is empty.
	List(namespace string) []*corev1.Service
}

// Files reads files in pods' volumes; *volume.Volumes implements it.
type Files interface {
	// Open opens a regular file in the volume; links cannot lead outside. The error is fs.ErrNotExist if there is none.
	Open(pod *corev1.Pod, volume, path string) (io.ReadCloser, error)
}

// Sources are where variables come from. Variables that need a nil source fail; without Services there are no service
// variables.
type Sources struct {
	Objects  Objects
	Services Services
	Files    Files
}

// Options configures New. The zero value is ready to use.
type Options struct {
	// ServicesWait is how long a container waits for the first list of services; 0 is a second.
	ServicesWait time.Duration
	// Logger records details that errors leave out; nil discards them.
	Logger *slog.Logger
}

// Environment computes containers' environments. Make one with New.
type Environment struct {
	in   Sources
	wait time.Duration
	log  *slog.Logger
}

var _ kubelet.Environment = (*Environment)(nil)

// New makes an Environment.
func New(in Sources, o Options) *Environment {
	e := &Environment{in: in, wait: o.ServicesWait, log: o.Logger}
	if e.wait <= 0 {
		e.wait = time.Second
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	return e
}

// maker computes one container's environment.
type maker struct {
	*Environment
	kubelet.EnvironmentRequest
	env        []cri.EnvVar
	at         map[string]int // the index of a name in env
	services   map[string]string
	configMaps map[string]*corev1.ConfigMap
	secrets    map[string]*corev1.Secret
}

// Environment implements kubelet.Environment. It returns no warnings: any variable name is valid since upstream's 1.34.
func (e *Environment) Environment(ctx context.Context, r kubelet.EnvironmentRequest) (env []cri.EnvVar, warnings []string, err error) {
	services, err := e.serviceVariables(ctx, r.Pod)
	if err != nil {
		return nil, nil, err
	}
	m := &maker{
		Environment: e, EnvironmentRequest: r, at: map[string]int{}, services: make(map[string]string, len(services)),
		configMaps: map[string]*corev1.ConfigMap{}, secrets: map[string]*corev1.Secret{},
	}
	for _, s := range services {
		m.services[s.Name] = s.Value
	}
	for i := range r.Container.EnvFrom {
		if err := m.from(ctx, &r.Container.EnvFrom[i]); err != nil {
			return nil, nil, err
		}
	}
	for i := range r.Container.Env {
		if err := m.add(ctx, &r.Container.Env[i]); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range services {
		if _, taken := m.at[s.Name]; !taken {
			m.set(s.Name, s.Value)
		}
	}
	return m.env, nil, nil
}

var errServices = errors.New("services have not yet been read at least once, cannot construct envvars")

func (e *Environment) serviceVariables(ctx context.Context, pod *corev1.Pod) ([]cri.EnvVar, error) {
	if e.in.Services == nil {
		return nil, nil
	}
	if origin.FromAPI(pod) {
		waiting, cancel := context.WithTimeout(ctx, e.wait)
		defer cancel()
		if err := e.in.Services.WaitSynced(waiting); err != nil {
			return nil, errServices
		}
	}
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	services := e.in.Services.List(pod.Namespace)
	if pod.Namespace != corev1.NamespaceDefault {
		services = append(e.in.Services.List(corev1.NamespaceDefault), services...)
	}
	return ServiceVariables(services, pod.Namespace, links), nil
}

func (m *maker) set(name, value string) {
	if i, ok := m.at[name]; ok {
		m.env[i].Value = value
		return
	}
	m.at[name] = len(m.env)
	m.env = append(m.env, cri.EnvVar{Name: name, Value: value})
}

func isTrue(b *bool) bool { return b != nil && *b }

// from adds all keys of an object, in the order of their names.
func (m *maker) from(ctx context.Context, source *corev1.EnvFromSource) error {
	values := map[string]string{}
	switch {
	case source.ConfigMapRef != nil:
		object, err := m.configMap(ctx, source.ConfigMapRef.Name, isTrue(source.ConfigMapRef.Optional))
		if object == nil {
			return err
		}
		values = object.Data
	case source.SecretRef != nil:
		object, err := m.secret(ctx, source.SecretRef.Name, isTrue(source.SecretRef.Optional))
		if object == nil {
			return err
		}
		for k, v := range object.Data {
			values[k] = string(v)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		m.set(source.Prefix+k, values[k])
	}
	return nil
}

var errNoObjects = errors.New("there is no source of configmaps and secrets")

// configMap reads a config map once per container; it returns nil without an error for an optional one that is missing.
func (m *maker) configMap(ctx context.Context, name string, optional bool) (*corev1.ConfigMap, error) {
	if object := m.configMaps[name]; object != nil {
		return object, nil
	}
	if m.in.Objects == nil {
		return nil, errNoObjects
	}
	object, err := m.in.Objects.ConfigMap(ctx, m.Pod.Namespace, name)
	if optional && apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.configMaps[name] = object
	return object, nil
}

// secret is configMap for secrets.
func (m *maker) secret(ctx context.Context, name string, optional bool) (*corev1.Secret, error) {
	if object := m.secrets[name]; object != nil {
		return object, nil
	}
	if m.in.Objects == nil {
		return nil, errNoObjects
	}
	object, err := m.in.Objects.Secret(ctx, m.Pod.Namespace, name)
	if optional && apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.secrets[name] = object
	return object, nil
}

// add adds one variable of env.
func (m *maker) add(ctx context.Context, e *corev1.EnvVar) error {
	value, skip := e.Value, false
	var err error
	switch {
	case value != "":
		value = expansion.Text(value, m.lookup)
	case e.ValueFrom != nil:
		value, skip, err = m.valueFrom(ctx, e.ValueFrom)
	}
	if !skip { // after an error the value is not used
		m.set(e.Name, value)
	}
	return err
}

func (m *maker) lookup(name string) (string, bool) {
	if i, ok := m.at[name]; ok {
		return m.env[i].Value, true
	}
	value, ok := m.services[name]
	return value, ok
}

// valueFrom finds a value; skip reports an optional one that is missing.
func (m *maker) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (value string, skip bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = m.field(from.FieldRef)
	case from.ResourceFieldRef != nil:
		value, err = m.resource(from.ResourceFieldRef)
	case from.ConfigMapKeyRef != nil:
		return m.configMapKey(ctx, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return m.secretKey(ctx, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return m.fileKey(from.FileKeyRef)
	}
	return value, false, err
}

func (m *maker) configMapKey(ctx context.Context, ref *corev1.ConfigMapKeySelector) (value string, skip bool, err error) {
	optional := isTrue(ref.Optional)
	object, err := m.configMap(ctx, ref.Name, optional)
	if object == nil {
		return "", true, err
	}
	value, ok := object.Data[ref.Key]
	if !ok && !optional {
		err = fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, m.Pod.Namespace, ref.Name)
	}
	return value, !ok, err
}

func (m *maker) secretKey(ctx context.Context, ref *corev1.SecretKeySelector) (value string, skip bool, err error) {
	optional := isTrue(ref.Optional)
	object, err := m.secret(ctx, ref.Name, optional)
	if object == nil {
		return "", true, err
	}
	data, ok := object.Data[ref.Key]
	if !ok && !optional {
		err = fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, m.Pod.Namespace, ref.Name)
	}
	return string(data), !ok, err
}

var errEnvFile = errors.New("couldn't parse env file")

// fileKey reads a variable from a file that a container of the pod wrote (KEP-3721).
func (m *maker) fileKey(ref *corev1.FileKeySelector) (value string, skip bool, err error) {
	if m.in.Files == nil || !slices.ContainsFunc(m.Pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == ref.VolumeName }) {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName)
	}
	file, err := m.in.Files.Open(m.Pod, ref.VolumeName, ref.Path)
	if errors.Is(err, fs.ErrNotExist) && isTrue(ref.Optional) {
		return "", true, nil
	}
	if err == nil {
		defer func() { _ = file.Close() }()
		value, err = ParseFile(file, ref.Key)
	}
	if err != nil {
		m.log.Error("reading an environment file", "pod", m.Pod.Namespace+"/"+m.Pod.Name, "volume", ref.VolumeName, "path", ref.Path, "error", err)
		return "", false, errEnvFile
	}
	if value == "" && !isTrue(ref.Optional) {
		err = fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, value == "", err
}

// field returns a field of the pod, including its status and spec.
func (m *maker) field(ref *corev1.ObjectFieldSelector) (string, error) {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		return "", fmt.Errorf("unsupported pod version: %s", ref.APIVersion)
	}
	switch ref.FieldPath {
	case "spec.nodeName", "spec.host":
		return m.Pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return m.Pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		if len(m.HostIPs) == 0 {
			return "", errors.New("host IP unknown; known addresses: []")
		}
		if ref.FieldPath == "status.hostIP" {
			return m.HostIPs[0], nil
		}
		return strings.Join(m.HostIPs, ","), nil
	case "status.podIP":
		if len(m.IPs) == 0 {
			return "", nil
		}
		return m.IPs[0], nil
	case "status.podIPs":
		return strings.Join(m.IPs, ","), nil
	default:
		return downward.Field(m.Pod, ref.FieldPath)
	}
}

// resource returns a request or limit of a container, by default of this one.
func (m *maker) resource(ref *corev1.ResourceFieldSelector) (string, error) {
	of, bounds := m.Container, downward.Limits(m.Pod, m.Allocatable)
	if ref.ContainerName != "" {
		var err error
		if of, err = downward.Container(m.Pod, ref.ContainerName); err != nil {
			return "", err
		}
		if slices.ContainsFunc(m.Pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == ref.ContainerName }) {
			bounds = nil // upstream applies the node's bounds by name only to regular containers
		}
	}
	return downward.Resource(ref, of, bounds)
}
