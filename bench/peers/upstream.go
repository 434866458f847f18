package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/pki"
)

// theUpstream is upstream's control plane: its programs by name, and which versions they say they are.
type theUpstream struct {
	programs, versions map[string]string
}

// newUpstream finds the programs in a directory, or builds them.
func newUpstream(ctx context.Context, dir string) (*theUpstream, error) {
	u := &theUpstream{programs: map[string]string{}, versions: map[string]string{}}
	for _, name := range []string{upstream.Etcd, upstream.APIServer, upstream.ControllerManager, upstream.Scheduler, upstream.Kubelet} {
		path := filepath.Join(dir, name)
		var err error
		if dir == "" {
			path, err = build(ctx, name)
		} else {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, err
		}
		u.programs[name] = path
	}
	for name, program := range map[string]string{"kubernetes": upstream.APIServer, "etcd": upstream.Etcd} {
		said, err := exec.CommandContext(ctx, u.programs[program], "--version").Output()
		if err != nil {
			return nil, fmt.Errorf("%s --version: %w", program, err)
		}
		u.versions[name] = versionIn(string(said))
	}
	return u, nil
}

func versionIn(said string) string {
	if found := regexp.MustCompile(`v?\d+\.\d+\.\d+\S*`).FindString(said); found != "" {
		return found
	}
	return "unknown"
}

// build compiles a program into the repository's bin directory, unless it is there and current.
func build(ctx context.Context, name string) (string, error) {
	kubernetes, err := upstream.Find(ctx)
	if err != nil {
		return "", err
	}
	return kubernetes.Build(ctx, name)
}

// site is where one of upstream's control planes lives: its files and ports.
type site struct {
	dir                    string
	client, members, serve int
	authority              *pki.Authority
}

func newSite(dir string) (*site, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	authority, err := pki.Open(dir, "kubernetes")
	if err != nil {
		return nil, err
	}
	s := &site{dir: dir, authority: authority}
	for _, port := range []*int{&s.client, &s.members, &s.serve} {
		if *port, err = freePort(); err != nil {
			return nil, err
		}
	}
	_, serving := authority.Keep("apiserver", pki.Subject{Name: "kube-apiserver", Hosts: []string{"127.0.0.1", "kubernetes.default.svc"}}, time.Hour)
	_, accounts := authority.Keep("sa", pki.Subject{Name: "accounts"}, time.Hour)
	return s, errors.Join(serving, accounts)
}

func (s *site) file(name string) string { return filepath.Join(s.dir, name) }

// config is that of a user, without limits of its own.
func (s *site) config(user string, groups ...string) (*rest.Config, error) {
	pair, err := s.authority.Issue(pki.Subject{Name: user, Groups: groups}, time.Hour)
	return &rest.Config{
		Host: "https://127.0.0.1:" + strconv.Itoa(s.serve), QPS: -1, WarningHandler: rest.NoWarnings{},
		TLSClientConfig: rest.TLSClientConfig{CAData: s.authority.PEM(), CertData: pair.Certificate, KeyData: pair.Key},
	}, err
}

// kubeconfig writes that of a user and returns its name.
func (s *site) kubeconfig(ctx context.Context, name, user string, groups ...string) (string, error) {
	c, err := s.config(user, groups...)
	if err != nil {
		return "", err
	}
	path := s.file(name + ".kubeconfig")
	return path, write(ctx, path, c)
}

// write makes a kubeconfig of what a client knows.
func write(ctx context.Context, path string, c *rest.Config) error {
	return kubeconfig.Add(ctx, path, kubeconfig.Entry{
		Name: "it", Server: c.Host, CA: c.CAData, Certificate: c.CertData, Key: c.KeyData, Token: c.BearerToken,
	})
}

// arguments are those of the programs, by name.
func (s *site) arguments(ctx context.Context) (map[string][]string, error) {
	manager, managers := s.kubeconfig(ctx, "controller-manager", "system:kube-controller-manager")
	scheduler, schedulers := s.kubeconfig(ctx, "scheduler", "system:kube-scheduler")
	storage, peers := fmt.Sprintf("http://127.0.0.1:%d", s.client), fmt.Sprintf("http://127.0.0.1:%d", s.members)
	return map[string][]string{
		"etcd": {
			"--name=it", "--data-dir=" + s.file("etcd"), "--listen-client-urls=" + storage, "--advertise-client-urls=" + storage,
			"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=it=" + peers, "--log-level=warn",
		},
		upstream.APIServer: {
			"--etcd-servers=" + storage, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.serve), "--cert-dir=" + s.file("certificates"),
			"--tls-cert-file=" + s.file("apiserver.crt"), "--tls-private-key-file=" + s.file("apiserver.key"), "--client-ca-file=" + s.file("ca.crt"),
			"--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + s.file("sa.crt"), "--service-account-signing-key-file=" + s.file("sa.key"),
		},
		upstream.ControllerManager: {
			"--kubeconfig=" + manager, "--use-service-account-credentials", "--service-account-private-key-file=" + s.file("sa.key"),
			"--root-ca-file=" + s.file("ca.crt"), "--leader-elect=false", "--secure-port=0",
		},
		upstream.Scheduler: {"--kubeconfig=" + scheduler, "--leader-elect=false", "--secure-port=0"},
	}, errors.Join(managers, schedulers)
}

// start starts all programs at once. Those that need others wait for these, or are started again, as on a machine that boots.
func (u *theUpstream) start(ctx context.Context, dir string) (*plane, error) {
	p, _, err := u.launch(ctx, dir)
	return p, err
}

// launch is start, and tells where everything is.
func (u *theUpstream) launch(ctx context.Context, dir string) (*plane, *site, error) {
	s, err := newSite(dir)
	if err != nil {
		return nil, nil, err
	}
	arguments, err := s.arguments(ctx)
	if err != nil {
		return nil, nil, err
	}
	config, err := s.config("admin", "system:masters")
	if err != nil {
		return nil, nil, err
	}
	// In the order in which they are to end.
	var all []*daemon
	for _, name := range []string{upstream.Scheduler, upstream.ControllerManager, upstream.APIServer, "etcd"} {
		all = append(all, startDaemon(u.programs[name], arguments[name], s.file(name+".log")))
	}
	return &plane{config: config, processes: func() ([]int, error) {
		var numbers []int
		for _, d := range all {
			pid, err := d.pid()
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, pid)
		}
		return numbers, nil
	}, stop: func() error {
		var errs []error
		for _, d := range all {
			errs = append(errs, d.stop())
		}
		return errors.Join(errs...)
	}}, s, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// last is the end of what a program wrote.
func last(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	const enough = 3000
	return strings.TrimSpace(string(text[max(0, len(text)-enough):]))
}
