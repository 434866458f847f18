// Package upstream builds the Kubernetes programs that the module conformance/upstream pins, for tests that run them
// against keelson.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Names of the programs. Etcd is built from tools/etcd.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Etcd              = "etcd"
	Kubectl           = "kubectl"
	Kubelet           = "kubelet"
	Proxy             = "kube-proxy"
	Scheduler         = "kube-scheduler"
	Suite             = "e2e.test"

	// Programs in the suite's images, linked statically. The sample API server is that of an older version, on purpose:
	// conformance/sampleapiserver pins it.
	Agnhost         = "agnhost"
	NoNewPrivs      = "nonewprivs"
	SampleAPIServer = "sample-apiserver"
	StaticEtcd      = "etcd-static"
)

// ErrUnknown means that there is no such program.
var ErrUnknown = errors.New("unknown program")

// Kubernetes is one version of upstream's programs, built into the repository's bin directory. A build
// takes minutes the first time; Go's build cache makes it seconds after that.
type Kubernetes struct {
	// Version is upstream's version, such as v1.37.1.
	Version string

	root string
}

// Find finds the repository and the version that its module pins. The working directory must be in the repository, or
// in a module that requires it.
func Find(ctx context.Context) (Kubernetes, error) {
	root, err := list(ctx, "", "{{.Dir}}", "github.com/keelson-dev/keelson")
	if err != nil {
		return Kubernetes{}, err
	}
	version, err := list(ctx, filepath.Join(root, "conformance", "upstream"), "{{.Version}}", "k8s.io/kubernetes")
	return Kubernetes{Version: version, root: root}, err
}

func list(ctx context.Context, dir, format, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", format, module)
	command.Dir = dir
	out, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("find module %s: %w\n%s", module, err, exit.Stderr)
		}
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Build compiles a program, unless it exists and is up to date, and returns its path.
func (k Kubernetes) Build(ctx context.Context, name string) (string, error) {
	var args []string
	dir := filepath.Join(k.root, "conformance", "upstream")
	// The linker takes gigabytes, so limit parallelism.
	env := append(os.Environ(), "GOFLAGS=-p=2 "+os.Getenv("GOFLAGS"))
	switch name {
	case APIServer, ControllerManager, Kubectl, Kubelet, Proxy, Scheduler:
		args = []string{"build", "-o", k.Path(name), "-ldflags", k.flags(), "k8s.io/kubernetes/cmd/" + name}
	case Etcd:
		args, dir = []string{"build", "-trimpath", "-o", k.Path(name), "."}, filepath.Join(k.root, "tools", "etcd")
	case Suite:
		args = []string{"test", "-c", "-vet=off", "-o", k.Path(name), "-ldflags", k.flags(), "k8s.io/kubernetes/test/e2e"}
	case Agnhost, NoNewPrivs:
		args = []string{"build", "-o", k.Path(name), "-trimpath", "-ldflags", "-s -w", "k8s.io/kubernetes/test/images/" + name}
		env = append(env, "CGO_ENABLED=0")
	case SampleAPIServer:
		args, dir = []string{"build", "-o", k.Path(name), "-trimpath", "-ldflags", "-s -w", "k8s.io/sample-apiserver"}, filepath.Join(k.root, "conformance", "sampleapiserver")
		env = append(env, "CGO_ENABLED=0")
	case StaticEtcd:
		args, dir = []string{"build", "-o", k.Path(name), "-trimpath", "-ldflags", "-s -w", "."}, filepath.Join(k.root, "tools", "etcd")
		env = append(env, "CGO_ENABLED=0")
	default:
		return "", fmt.Errorf("%w %q", ErrUnknown, name)
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	command.Env = env
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s (Kubernetes %s): %w\n%s", name, k.Version, err, out)
	}
	return k.Path(name), nil
}

// Dir returns the module cache's directory with the source of the version.
func (k Kubernetes) Dir(ctx context.Context) (string, error) {
	return list(ctx, filepath.Join(k.root, "conformance", "upstream"), "{{.Dir}}", "k8s.io/kubernetes")
}

// Root returns the repository's directory.
func (k Kubernetes) Root() string { return k.root }

// Path returns where a program is built.
func (k Kubernetes) Path(name string) string {
	if name == Etcd { // it has its own version, and the tests of storage/etcd use it too
		return filepath.Join(k.root, "bin", name)
	}
	return filepath.Join(k.root, "bin", "kubernetes-"+k.Version, name)
}

// flags sets a program's version, which tests and servers check.
func (k Kubernetes) flags() string {
	const at = "k8s.io/component-base/version."
	major, minor := "", ""
	if parts := strings.Split(strings.TrimPrefix(k.Version, "v"), "."); len(parts) > 1 {
		major, minor = parts[0], parts[1]
	}
	return fmt.Sprintf("-X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s", at, k.Version, major, minor)
}
