package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// addresses are those that a cluster gives: to pods, to hosts, and to services of type LoadBalancer.
type addresses struct {
	network   netip.Prefix
	hosts     hostSettings
	balancers []netip.Prefix
}

// settings are the values of the flags.
type settings struct {
	dataDir    string
	kubeconfig string
	listen     string
	storage    string
	etcd       etcdSettings
	encryption encryptionSettings
	nodes      int
	runtime    string
	images     string
	mirror     string
	addresses
	down       bool
	install    bool
	disable    []string
	plugins    plugins
	scheduling scheduling
	auditing   auditing
	inflight   inflight
	foreign    foreign
	login      login
	permission permission
	spans      spans
	kubelet    kubeletFile
	verbose    bool
	given      given
}

const usage = `cluster is a Kubernetes cluster in one process, for kubectl and all other clients.

Usage:

  cluster [flags]

Flags:

  --data-dir DIR        where certificates, state and the audit log are kept; an empty or missing
                        directory, or one of an earlier run (default %s)
  --kubeconfig FILE     where the administrator's credentials are written, readable by you alone; what else
                        stands in the file stays (default DIR/kubeconfig)
  --listen ADDR:PORT    where the API is served, over TLS; port 0 takes a free one (default %s). For
                        pods on real containers it is served at the first node's address, too
  --storage KIND        embedded: durable, in DIR/store; survives kill -9 and power loss
                        memory: gone when the program ends
                        etcd: in an etcd, which --etcd-endpoints names (default embedded)
  --etcd-endpoints LIST URLs of an etcd's members, separated by commas; their keys and values are upstream's, so
                        that a kube-apiserver can serve the same etcd in turn. --etcd-servers is the same
  --etcd-cafile FILE    the authorities that sign the members' certificates (default the system's)
  --etcd-certfile FILE, --etcd-keyfile FILE
                        the certificate by which the members know this program, and its key
  --etcd-user NAME, --etcd-password-file FILE
                        for an etcd with authentication; the file has nothing but the password
  --etcd-prefix PATH    what all keys begin with (default %s)
  --etcd-compaction-interval TIME
                        how often etcd forgets what was before, except for the last interval; 0 leaves that to others
                        (default %s)
  --encryption-provider-config FILE
                        encrypts chosen resources in storage, as kube-apiserver's flag: an EncryptionConfiguration,
                        readable by you alone
  --encryption-provider-config-automatic-reload
                        read that file again when it changes
  --nodes N             how many nodes there are (default 1)
  --runtime KIND        simulated: pods run in name only (default simulated)
                        containerd: real containers, for root on Linux; elsewhere simulated ones, and why.
                        --install gets what it takes
  --images PATH         archives of images (OCI layout in a *.tar), or a directory of some, to load at start; they
                        are also served to the nodes as a registry, over plain HTTP on the loopback interface,
                        for pods that always pull
  --registry-mirror URL where images are looked for before their own registry
  --kubelet-config FILE a KubeletConfiguration for the only node of real containers, about CPUs and memory that containers
                        have to themselves (cpuManagerPolicy and so on) and what is reserved
  --cluster-cidr CIDR   the pods' addresses, 254 for each node (default %s)
  --hosts KIND          shared: all nodes of real containers share this machine's network (default shared)
                        netns: each is a host of its own, a network namespace with an address, a kubelet, a proxy
                        and routes to the others'; they end with the cluster. DIR/hosts has the namespaces, as in
                        nsenter --net=DIR/hosts/node-0 ip route
  --host-cidr CIDR      the addresses of such hosts and, the first, of this machine (default %s)
  --load-balancer-range CIDR
                        services of type LoadBalancer get addresses of it (default none do)
  --install             build and install what real containers take, from a checkout of this repository; where no
                        registry of images can be reached, make images of nginx and busybox, too
  --down                remove all that nodes of real containers have on this machine, and end the cluster that
                        runs them; the API's state stays
  --disable LIST        leave out some of scheduler, controllers, nodes, dns, networkpolicies, separated by commas, so
                        that other programs can take their place; their kubeconfig files are written to DIR. Only
                        real containers have a dns, in the service kube-dns, and network policies in effect
  --disable-admission-plugins LIST
                        leave out some admission plugins, as kube-apiserver's flag. On by default are:
                        %s
  --enable-admission-plugins LIST
                        add some that are off by default:
                        %s
  --admission-control-config-file FILE
                        how plugins are to work, an AdmissionConfiguration, as kube-apiserver's flag
  --scheduler-config FILE
                        how pods are scheduled, a KubeSchedulerConfiguration, as kube-scheduler's --config: profiles, plugins
                        and their arguments, extenders
  --policy-config-file FILE
                        the same in the older form, a Policy: predicates, priorities, extenders
  --scheduler-decisions N
                        keep the last decision about each of N pods, with what every node was refused for or its scores;
                        0 keeps none (default 1000, or 0 with more than 200 nodes). They are served to those who may get
                        this path, as tables or JSON:
                        kubectl get --raw '/debug/scheduler/decisions/NAMESPACE/POD?format=table'
  --audit-log FILE      who did what, a JSON document per line; "" writes none (default DIR/audit.log)
  --audit-log-maxage DAYS, --audit-log-maxbackup N, --audit-log-maxsize MIB
                        how long and how many old files of it are kept, and how large one grows; 0 is no limit
                        (default %d, %d, %d). Of those who have not authenticated it tells no more than a quarter of that
  --audit-policy FILE   what the audit log tells, an audit.k8s.io/v1 Policy (default: who did what, without bodies), read again
                        when it changes. --audit-policy-file is the same
  --audit-webhook-config-file FILE
                        a server that gets the same events, by a kubeconfig file, which is read again when it changes
  --audit-webhook-mode MODE
                        batch: events are collected and posted together; blocking: requests wait for them to be posted;
                        blocking-strict: requests fail if they are not (default batch)
  --audit-webhook-batch-buffer-size N, --audit-webhook-batch-max-size N, --audit-webhook-batch-max-wait TIME,
  --audit-webhook-batch-throttle-enable=false, --audit-webhook-batch-throttle-qps N,
  --audit-webhook-batch-throttle-burst N, --audit-webhook-initial-backoff TIME, --audit-webhook-version VERSION,
  --audit-webhook-truncate-enabled, --audit-webhook-truncate-max-batch-size BYTES,
  --audit-webhook-truncate-max-event-size BYTES
                        as kube-apiserver's flags (default 10000, 400, 30s, true, 10, 15, 10s, audit.k8s.io/v1, false,
                        10485760, 102400)
  --token-auth-file FILE
                        people with bearer tokens: a CSV of token,user,uid,"group1,group2"; read again when it changes
  --basic-auth-file FILE
                        people with passwords: a CSV of password,user,uid,"group1,group2"; read again when it changes
  --client-ca-file FILE people with certificates of other authorities than the cluster's own; read again when it changes
  --authentication-config FILE
                        issuers of OpenID Connect whose tokens are accepted, and who needs no credentials: an
                        AuthenticationConfiguration, read again when it changes
  --oidc-issuer-url URL, --oidc-client-id ID, --oidc-ca-file FILE, --oidc-username-claim NAME,
  --oidc-username-prefix TEXT, --oidc-groups-claim NAME, --oidc-groups-prefix TEXT, --oidc-signing-algs LIST,
  --oidc-required-claim NAME=VALUE
                        one such issuer without a file, as kube-apiserver's flags
  --anonymous-auth=false
                        refuse requests without credentials
  --enable-bootstrap-token-auth
                        accept bootstrap tokens, with which nodes join
  --authentication-token-webhook-config-file FILE, --authentication-token-webhook-version VERSION,
  --authentication-token-webhook-cache-ttl TIME
                        a server that knows tokens, by a kubeconfig file (default v1beta1, 2m)
  --authorization-mode LIST
                        who decides, in this order: AlwaysAllow, AlwaysDeny, ABAC, Node, RBAC, Webhook (default Node,RBAC)
  --authorization-policy-file FILE
                        the policies of ABAC, a JSON document per line
  --authorization-webhook-config-file FILE, --authorization-webhook-version VERSION,
  --authorization-webhook-cache-authorized-ttl TIME, --authorization-webhook-cache-unauthorized-ttl TIME
                        the server that Webhook asks, by a kubeconfig file (default v1beta1, 5m, 30s)
  --authorization-config FILE
                        all that instead: an AuthorizationConfiguration, read again when it changes
  --tls-cert-file FILE, --tls-private-key-file FILE
                        the server's certificate, with those that signed it behind it, and its key (default one that is
                        made in DIR/pki); its names are up to you
  --cors-allowed-origins LIST
                        expressions for origins whose pages may use the API from a browser, as kube-apiserver's flag:
                        '^https://dashboard\.example\.com(:|$)' (default none)
  --service-account-issuer URL
                        the name in tokens of service accounts, whose public key is DIR/pki/sa.pub
                        (default https://kubernetes.default.svc.cluster.local)
  --max-requests-inflight N, --max-mutating-requests-inflight N
                        the sum is how many requests are served at once, shared as FlowSchemas and
                        PriorityLevelConfigurations say; 0 in both is no limit (default %d, %d)
  --tracing-config-file FILE
                        a TracingConfiguration: the collector that spans of requests and of the store are sent to
                        (OpenTelemetry), and of how many (default nothing is sent)
  --verbose             tell on standard error what the components do

Examples:

  cluster                                             a cluster that is there again at the next start
  cluster --storage memory --listen 127.0.0.1:0       one to throw away
  cluster --nodes 50                                  a large one
  cluster --disable scheduler                         one for a scheduler of your own
  cluster --storage etcd --etcd-endpoints http://127.0.0.1:2379
                                                      one whose state is in etcd
  cluster --storage etcd --etcd-endpoints http://127.0.0.1:2379 --disable scheduler,controllers,nodes \
          --data-dir DIR2 --listen 127.0.0.1:7443     a second API server for it; DIR2/pki is a copy of the first's

Ctrl-C ends it: requests finish, watches end, nothing is lost. SIGUSR1 writes a snapshot of the state to DIR/snapshots
while all goes on; examples/storage brings it back.
`

const (
	defaultListen  = "127.0.0.1:6443"
	defaultNetwork = "10.64.0.0/10"
)

// components are the values of --disable.
func components() []string {
	return []string{"scheduler", "controllers", "nodes", "dns", "networkpolicies"}
}

// parse reads the command line. Its errors say what to write instead.
func parse(args []string, getenv func(string) string, help io.Writer) (settings, error) {
	var s settings
	home := "~"
	if h := getenv("HOME"); h != "" {
		home = h
	}
	dataDir := filepath.Join(home, ".keelson")
	var disable, network string
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.dataDir, "data-dir", dataDir, "")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "")
	f.StringVar(&s.listen, "listen", defaultListen, "")
	f.StringVar(&s.storage, "storage", "embedded", "")
	s.etcd.define(f)
	s.encryption.define(f)
	f.IntVar(&s.nodes, "nodes", 1, "")
	f.StringVar(&s.runtime, "runtime", "simulated", "")
	f.StringVar(&s.images, "images", "", "")
	f.StringVar(&s.mirror, "registry-mirror", "", "")
	f.StringVar(&network, "cluster-cidr", defaultNetwork, "")
	s.hosts.define(f)
	f.Func("load-balancer-range", "", s.loadBalancers)
	f.BoolVar(&s.down, "down", false, "")
	f.BoolVar(&s.install, "install", false, "")
	f.StringVar(&disable, "disable", "", "")
	s.plugins.define(f)
	s.scheduling.define(f)
	s.auditing.define(f)
	s.inflight.define(f)
	s.foreign.define(f)
	s.login.define(f)
	s.permission.define(f)
	s.spans.define(f)
	s.kubelet.define(f)
	f.BoolVar(&s.verbose, "verbose", false, "")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(help, usage, dataDir, defaultListen, defaultPrefix, "5m", defaultNetwork, defaultHostNetwork, strings.Join(usualPlugins(), ", "), strings.Join(morePlugins(), ", "),
			auditDays, auditFiles, auditSize, maxReading, maxWriting)
		return s, err
	case err != nil:
		return s, fmt.Errorf("%w; --help lists the flags", err)
	case f.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q: there are only flags; --help lists them", f.Arg(0))
	}
	s.given = flagsOf(f, args)
	if disable != "" {
		s.disable = strings.Split(disable, ",")
	}
	if s.kubeconfig == "" {
		s.kubeconfig = filepath.Join(s.dataDir, "kubeconfig")
	}
	if s.auditing.file == "DIR/audit.log" {
		s.auditing.file = filepath.Join(s.dataDir, "audit.log")
	}
	return s, errors.Join(s.checkNodes(network), s.check(), s.hosts.check(&s), s.etcd.check(s.storage), s.encryption.check(),
		s.auditing.check(f), s.inflight.check(), s.foreign.check(), s.plugins.check(), s.scheduling.check(), s.kubelet.check(&s))
}

// maxNodes keeps a typing error from exhausting the memory.
const maxNodes = 5000

func (s *settings) check() error {
	if err := checkListen(s.listen); err != nil {
		return err
	}
	switch {
	case s.dataDir == "":
		return errors.New("--data-dir is empty: name a directory")
	case s.storage != "memory" && s.storage != "embedded" && s.storage != "etcd":
		return fmt.Errorf("--storage %q: choose memory or embedded or etcd", s.storage)
	case s.nodes < 0 || s.nodes > maxNodes:
		return fmt.Errorf("--nodes %d: choose a number from 0 to %d", s.nodes, maxNodes)
	}
	if len(s.balancers) > 0 && s.disabled("controllers") {
		return errors.New("--load-balancer-range needs the controllers, which --disable leaves out")
	}
	for _, name := range s.disable {
		if !slices.Contains(components(), name) {
			return fmt.Errorf("--disable %q: choose from %s, separated by commas", name, strings.Join(components(), ", "))
		}
	}
	if strings.HasPrefix(s.dataDir, "~") {
		return fmt.Errorf("--data-dir %q: ~ is the shell's word, or HOME is not set; name the directory in full", s.dataDir)
	}
	return nil
}

// checkNodes checks the flags about nodes and their containers.
func (s *settings) checkNodes(network string) error {
	var err error
	if s.network, err = netip.ParsePrefix(network); err != nil || !s.network.Addr().Is4() || s.network.Bits() > 24 {
		return fmt.Errorf("--cluster-cidr %q: write it as ADDRESS/BITS, IPv4 with at most 24 bits, as in %s", network, defaultNetwork)
	}
	if room := 1 << (24 - s.network.Bits()); s.nodes > room {
		return fmt.Errorf("--cluster-cidr %s: has room for %d nodes, not for %d", network, room, s.nodes)
	}
	if s.runtime != "simulated" && s.runtime != "containerd" {
		return fmt.Errorf("--runtime %q: choose simulated or containerd", s.runtime)
	}
	if s.runtime != "containerd" && (s.images != "" || s.mirror != "") {
		return errors.New("--images and --registry-mirror need real containers: add --runtime containerd")
	}
	if s.mirror != "" {
		if u, err := url.Parse(s.mirror); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("--registry-mirror %q: write it as http://HOST:PORT or https://HOST", s.mirror)
		}
	}
	return nil
}

// loadBalancers adds a range of addresses for load balancers.
func (s *settings) loadBalancers(text string) error {
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return errors.New("write it as ADDRESS/BITS, as in 192.0.2.0/24")
	}
	s.balancers = append(s.balancers, network.Masked())
	return nil
}

func checkListen(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--listen %q: write it as ADDRESS:PORT, as in %s", address, defaultListen)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("--listen %q: the port is a number from 0 to 65535", address)
	}
	if host != "" && net.ParseIP(host) == nil {
		return fmt.Errorf("--listen %q: the address is an IP, as in %s", address, defaultListen)
	}
	return nil
}

func (s *settings) disabled(name string) bool { return slices.Contains(s.disable, name) }
