package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // users with "auth-provider: {name: oidc}"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

var (
	// ErrNoServer: no file and no override says where the API server is.
	ErrNoServer = errors.New("no API server is configured")
	// ErrNotFound: no file has the requested context, cluster or user.
	ErrNotFound = errors.New("not found")
)

// Environment is the process environment that decides which files are read. A program makes it from its environment
// variables with [EnvironmentOf]; an empty one finds nothing.
type Environment struct {
	Kubeconfig string // KUBECONFIG: paths separated as in PATH
	Home       string // the home directory, which holds .kube/config
	Cache      string // KUBECACHEDIR: where answers of servers are kept

	// The environment of a pod.
	ServiceHost, ServicePort string // KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT
	PodNamespace             string // POD_NAMESPACE, which some set by the downward API
	ServiceAccount           string // directory of token, ca.crt and namespace; the usual one when empty
}

// EnvironmentOf reads an environment by variable name, usually with os.Getenv.
func EnvironmentOf(getenv func(string) string) Environment {
	return Environment{
		Kubeconfig:   getenv("KUBECONFIG"),
		Home:         getenv("HOME"),
		Cache:        getenv("KUBECACHEDIR"),
		ServiceHost:  getenv("KUBERNETES_SERVICE_HOST"),
		ServicePort:  getenv("KUBERNETES_SERVICE_PORT"),
		PodNamespace: getenv("POD_NAMESPACE"),
	}
}

// CacheDir is where kubectl keeps what servers serve, for package discovery; empty when no home
// directory is known.
func (e Environment) CacheDir() string {
	switch {
	case e.Cache != "":
		return e.Cache
	case e.Home != "":
		return filepath.Join(e.Home, ".kube", "cache")
	}
	return ""
}

// Options say where to look and what overrides it.
type Options struct {
	Path        string // the only file to read; it must exist
	Environment Environment

	// InCluster uses the pod's service account if the files name no server.
	InCluster bool

	// Overrides take precedence over the files, each set value separately. kubectl's flag --server is
	// ClusterInfo.Server, --token is AuthInfo.Token, --context is CurrentContext, --user is Context.AuthInfo,
	// --namespace is Context.Namespace, --as is AuthInfo.Impersonate and so on.
	Overrides clientcmd.ConfigOverrides

	// Warn is called if KUBECONFIG lists files and none of them exists. It may be nil.
	Warn func(error)
}

// Access is how to reach an API server.
type Access struct {
	Config *rest.Config
	// Namespace is the default namespace of requests; Explicit says that an override set it.
	Namespace string
	Explicit  bool
}

// Files returns the paths to read, in order of precedence: for each cluster, user and context the first file that has
// it counts, and for the current context the first that sets one.
func (o Options) Files() []string {
	switch env := o.Environment; {
	case o.Path != "":
		return []string{o.Path}
	case env.Kubeconfig != "":
		var files []string
		for _, f := range filepath.SplitList(env.Kubeconfig) {
			if f != "" && !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
		return files
	case env.Home != "":
		return []string{filepath.Join(env.Home, ".kube", "config")}
	}
	return nil
}

// Read returns the files merged, before overrides. It makes the paths in them absolute. It is empty if no file exists,
// unless Path names one.
func Read(o Options) (*api.Config, error) {
	files := o.Files()
	rules := rules(o, files)
	if o.Path != "" {
		if _, err := os.Stat(o.Path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("kubeconfig %s does not exist: check the path that was given: %w", o.Path, fs.ErrNotExist)
		}
	}
	for _, f := range files {
		if err := checkAliases(f); err != nil {
			return nil, err
		}
	}
	config, err := rules.Load()
	if err == nil {
		return config, nil
	}
	for _, f := range files {
		if cause := checkFile(f); cause != nil {
			return nil, cause
		}
	}
	return nil, fmt.Errorf("kubeconfig: %w", err)
}

func rules(o Options, files []string) *clientcmd.ClientConfigLoadingRules {
	warn := o.Warn
	if warn == nil {
		warn = func(error) {}
	}
	return &clientcmd.ClientConfigLoadingRules{
		ExplicitPath: o.Path, Precedence: files, Warner: warn,
		WarnIfAllMissing: o.Path == "" && o.Environment.Kubeconfig != "",
	}
}

// Load reads the files, applies the overrides and returns how to reach the API server.
//
// Load runs no exec plugins: they run, and token files are read again, when requests are sent. Plugins run with the
// environment of the process. As with kubectl, credentials are omitted if the connection does not use TLS.
func Load(o Options) (*Access, error) {
	files := o.Files()
	config, err := Read(o)
	if err != nil {
		return nil, err
	}
	s := source{files: files, config: config, overrides: o.Overrides}
	if err := s.checkNames(); err != nil {
		return nil, err
	}
	direct := clientcmd.NewNonInteractiveClientConfig(*config, o.Overrides.CurrentContext, &o.Overrides, rules(o, files))
	made, err := direct.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err) && o.InCluster && o.Environment.inPod():
		return o.inCluster()
	case clientcmd.IsEmptyConfig(err):
		return nil, s.noServer()
	case err != nil:
		return nil, s.explain(err)
	}
	if err := s.checkCredentials(made); err != nil {
		return nil, err
	}
	namespace, explicit, err := direct.Namespace()
	if err != nil {
		return nil, s.explain(err)
	}
	if ctx := s.context(); !explicit && ctx.Namespace == "" && o.InCluster && o.Environment.inPod() {
		namespace = o.Environment.namespace()
	}
	return &Access{Config: made, Namespace: namespace, Explicit: explicit}, nil
}

// source is what was read, to check it and to say where things come from.
type source struct {
	files     []string
	config    *api.Config
	overrides clientcmd.ConfigOverrides
}

// contextName is the name of the context in use; it may be empty.
func (s source) contextName() string {
	if name := s.overrides.CurrentContext; name != "" {
		return name
	}
	return s.config.CurrentContext
}

// context is the context in use under the overrides.
func (s source) context() api.Context {
	var c api.Context
	if found := s.config.Contexts[s.contextName()]; found != nil {
		c = *found
	}
	for _, f := range []struct{ field, override *string }{
		{&c.Cluster, &s.overrides.Context.Cluster},
		{&c.AuthInfo, &s.overrides.Context.AuthInfo},
		{&c.Namespace, &s.overrides.Context.Namespace},
	} {
		if *f.override != "" {
			*f.field = *f.override
		}
	}
	return c
}

// checkNames finds references to missing entries. A context may name a user that does not exist: its requests are
// anonymous, or have the overrides' credentials.
// requests are anonymous, or carry what the overrides give.
func (s source) checkNames() error {
	if name := s.contextName(); name != "" && s.config.Contexts[name] == nil {
		what := "current-context"
		if s.overrides.CurrentContext != "" {
			what = "context"
		}
		return s.missing(what, name, slices.Sorted(maps.Keys(s.config.Contexts)))
	}
	if name := s.overrides.Context.AuthInfo; name != "" && s.config.AuthInfos[name] == nil {
		return s.missing("user", name, slices.Sorted(maps.Keys(s.config.AuthInfos)))
	}
	name := s.context().Cluster
	if name == "" || s.config.Clusters[name] != nil {
		return nil
	}
	clusters := slices.Sorted(maps.Keys(s.config.Clusters))
	if s.overrides.Context.Cluster != "" {
		return s.missing("cluster", name, clusters)
	}
	if s.overrides.ClusterInfo.Server != "" || s.overrides.ClusterDefaults.Server != "" {
		return nil
	}
	err := s.missing("cluster", name, clusters)
	return fmt.Errorf("context %q%s: %w", s.contextName(), origin(s.config.Contexts[s.contextName()].LocationOfOrigin), err)
}

func (s source) missing(what, name string, have []string) error {
	choice := "there is none"
	if len(have) > 0 {
		choice = "choose one of " + strings.Join(have, ", ")
	}
	return fmt.Errorf("%s %q %w in %s: %s", what, name, ErrNotFound, s.places(), choice)
}

func (s source) places() string {
	if len(s.files) == 0 {
		return "no kubeconfig file"
	}
	return strings.Join(s.files, ", ")
}

func (s source) noServer() error {
	if len(s.files) == 0 {
		return fmt.Errorf("%w: no kubeconfig file was named and no home directory is known: name a file or a server", ErrNoServer)
	}
	if len(s.config.Contexts) > 0 && s.contextName() == "" {
		return fmt.Errorf("%w: %s sets no current-context: choose one of %s", ErrNoServer, s.places(),
			strings.Join(slices.Sorted(maps.Keys(s.config.Contexts)), ", "))
	}
	return fmt.Errorf("%w in %s: write the file, or name another one or a server", ErrNoServer, s.places())
}

// origin says where an entry stands, when it stands in a file.
func origin(file string) string {
	if file == "" {
		return ""
	}
	return " in " + file
}
