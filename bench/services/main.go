// Services measures keelson's proxy of services and its DNS beside kube-proxy, of the version that conformance/upstream
// pins and in its nftables mode, and CoreDNS, of the version that the module coredns pins. All run as processes against the
// same API server, one after the other in one run, in a network namespace that the program makes. It prints the figures
// and writes results/services.json. It needs root, on Linux.
//
// What is measured is what packets find: the endpoints answer with their addresses, and the kernel has a change once a
// connection to the service's address leads there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/upstream"
)

// options are how much to measure.
type options struct {
	services, changes, questions, rounds int
	results                              string
	inside                               bool
}

func main() {
	var o options
	flag.IntVar(&o.services, "services", 10_000, "how many services, each with two endpoints")
	flag.IntVar(&o.changes, "changes", 100, "how many changes of endpoints in each round")
	flag.IntVar(&o.questions, "questions", 200_000, "how many questions about names in each round")
	flag.IntVar(&o.rounds, "rounds", 3, "how often to measure each, in turn")
	flag.StringVar(&o.results, "results", "results", "directory to write services.json to; empty writes nothing")
	flag.BoolVar(&o.inside, "inside", false, "set by the program itself once it is in its network namespace")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	if !o.inside {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		again := exec.CommandContext(ctx, "unshare", append([]string{"--net", "--", self, "-inside"}, os.Args[1:]...)...) //nolint:gosec // this program
		again.Stdout, again.Stderr = os.Stdout, os.Stderr
		again.Cancel = func() error { return again.Process.Signal(os.Interrupt) }
		return again.Run()
	}
	begun, err := evidence.Begin(o.results, "services")
	if err != nil {
		return err
	}
	load, err := os.ReadFile("/proc/loadavg") // what else the machine does
	if err != nil {
		return err
	}
	minute, _, _ := strings.Cut(string(load), " ")
	result := evidence.Result{Note: note + " The machine's load average was " + minute + " when it began."}
	err = o.measure(ctx, &result)
	return begun.End(result, err)
}

const note = "All ran in this one run, one after the other, against one API server with all services. kube-proxy and CoreDNS have their " +
	"defaults, CoreDNS the plugins of kubeadm's configuration without forwarding. Times of changes are from the request at the API server until " +
	"a packet finds the endpoint. kube-proxy collects changes for up to a second; they come further apart."

// site is what measurements share.
type site struct {
	options
	dir, kubeconfig          string
	kubeProxy, coreDNS, ours string
	world                    *world
}

func (o options) measure(ctx context.Context, result *evidence.Result) (err error) {
	dir, err := os.MkdirTemp("", "keelson-services-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &site{options: o, dir: dir}
	if err := s.build(ctx, result); err != nil {
		return err
	}
	if err := network(ctx); err != nil {
		return err
	}
	if result.Figures, err = alone(ctx); err != nil {
		return err
	}
	program, err := clusterprocess.Build(ctx, dir)
	if err != nil {
		return err
	}
	server, err := program.Start(ctx, filepath.Join(dir, "data"), "--nodes", "1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Kill()) }()
	s.kubeconfig = server.Kubeconfig
	config, err := server.Config()
	if err != nil {
		return err
	}
	if s.world, err = newWorld(ctx, config, o.services); err != nil {
		return err
	}
	defer s.world.close()
	var all table
	for round := range o.rounds {
		fmt.Printf("round %d of %d\n", round+1, o.rounds)
		if err := s.round(ctx, &all); err != nil {
			return err
		}
	}
	result.Peers = all.rows()
	return nil
}

// round measures each program once.
func (s *site) round(ctx context.Context, all *table) error {
	proxies := [2][]string{
		{s.ours, "-kubeconfig", s.kubeconfig},
		{s.kubeProxy, "--kubeconfig", s.kubeconfig, "--proxy-mode", "nftables", "--hostname-override", "node-0", "--conntrack-max-per-core", "0",
			"--conntrack-tcp-timeout-established", "0", "--conntrack-tcp-timeout-close-wait", "0"},
	}
	corefile := filepath.Join(s.dir, "Corefile")
	text := fmt.Sprintf(".:5300 {\n errors\n kubernetes cluster.local in-addr.arpa ip6.arpa {\n  kubeconfig %s\n  pods insecure\n  ttl 30\n }\n"+
		" prometheus 127.0.0.1:9153\n cache 30\n loadbalance\n}\n", s.kubeconfig)
	if err := os.WriteFile(corefile, []byte(text), 0o600); err != nil {
		return err
	}
	names := [2][]string{{s.ours, "-kubeconfig", s.kubeconfig, "-dns", "127.0.0.1:5300"}, {s.coreDNS, "-conf", corefile}}
	for side := range proxies {
		if err := s.proxy(ctx, proxies[side], all, side); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(proxies[side][0]), err)
		}
	}
	for side := range names {
		if err := s.names(ctx, names[side], all, side); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(names[side][0]), err)
		}
	}
	return nil
}

// build compiles all programs.
func (s *site) build(ctx context.Context, result *evidence.Result) error {
	fmt.Println("building the programs of both sides, which takes minutes the first time")
	kubernetes, err := upstream.Find(ctx)
	if err != nil {
		return err
	}
	if s.kubeProxy, err = kubernetes.Build(ctx, upstream.Proxy); err != nil {
		return err
	}
	s.ours, s.coreDNS = filepath.Join(s.dir, "keelson-services"), filepath.Join(kubernetes.Root(), "bin", "coredns")
	for path, dir := range map[string]string{s.ours: "bench/services/program", s.coreDNS: "bench/services/coredns"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, ".") //nolint:gosec // the repository's programs
		build.Dir = filepath.Join(kubernetes.Root(), dir)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", dir, err, out)
		}
	}
	version := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "github.com/coredns/coredns")
	version.Dir = filepath.Join(kubernetes.Root(), "bench/services/coredns")
	dns, err := version.Output()
	if err != nil {
		return err
	}
	result.Versions = map[string]string{"kube-proxy": kubernetes.Version, "CoreDNS": string(dns[:len(dns)-1])}
	return nil
}
