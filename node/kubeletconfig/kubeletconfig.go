package kubeletconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
	"github.com/keelson-dev/keelson/internal/configfile"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/garbage"
	"github.com/keelson-dev/keelson/node/host"
)

// Error says what is wrong with a file: its Path, Line and Err.
type Error = configfile.Error

// Config is what a file says.
type Config struct {
	// Fields are the names of the fields that the file has, in order.
	Fields []string
	// Host is a node's, without what a file does not say: directories of its own, addresses, the server, logger.
	Host host.Options
	// Capacity overrides the machine's, for node.Parts.
	Capacity corev1.ResourceList
	// PodCIDRs are the networks of the node's pods.
	PodCIDRs []netip.Prefix
	// Endpoint is the socket of the container runtime; empty if the file does not say it.
	Endpoint string
	Server   Server
	// RotateCertificates replaces the certificate by which the API server knows the node.
	RotateCertificates bool
}

// Server is how the node's server is reached.
type Server struct {
	// Disabled is a node without a server.
	Disabled bool
	// Address and Port are where it listens; without the address, on all of them.
	Address netip.Addr
	Port    uint16
	// ClientCA is the file with the authority of its clients' certificates.
	ClientCA string
	// Certificate and Key are the files with its certificate.
	Certificate, Key string
	// Bootstrap requests its certificate from the cluster.
	Bootstrap bool
}

// file are the fields that are acted on.
type file struct {
	metav1.TypeMeta

	EnableServer       *bool    `json:"enableServer"`
	StaticPodPath      string   `json:"staticPodPath"`
	PodLogsDir         string   `json:"podLogsDir"`
	Address            string   `json:"address"`
	Port               uint16   `json:"port"`
	TLSCertFile        string   `json:"tlsCertFile"`
	TLSPrivateKeyFile  string   `json:"tlsPrivateKeyFile"`
	RotateCertificates bool     `json:"rotateCertificates"`
	ServerTLSBootstrap bool     `json:"serverTLSBootstrap"`
	ClusterDomain      string   `json:"clusterDomain"`
	ClusterDNS         []string `json:"clusterDNS"`
	ResolvConf         *string  `json:"resolvConf"`
	CgroupRoot         string   `json:"cgroupRoot"`
	MaxPods            int32    `json:"maxPods"`
	PodCIDR            string   `json:"podCIDR"`

	Authentication struct {
		X509 struct {
			ClientCAFile string `json:"clientCAFile"`
		} `json:"x509"`
		Webhook   caching  `json:"webhook"`
		Anonymous struct { // false by default
			Enabled bool `json:"enabled"`
		} `json:"anonymous"`
	} `json:"authentication"`
	Authorization struct {
		Mode    string  `json:"mode"`
		Webhook caching `json:"webhook"`
	} `json:"authorization"`

	ImageMinimumGCAge           string `json:"imageMinimumGCAge"`
	ImageMaximumGCAge           string `json:"imageMaximumGCAge"`
	ImageGCHighThresholdPercent *int   `json:"imageGCHighThresholdPercent"`
	ImageGCLowThresholdPercent  *int   `json:"imageGCLowThresholdPercent"`

	EvictionHard                     map[string]string `json:"evictionHard"`
	EvictionSoft                     map[string]string `json:"evictionSoft"`
	EvictionSoftGracePeriod          map[string]string `json:"evictionSoftGracePeriod"`
	EvictionMinimumReclaim           map[string]string `json:"evictionMinimumReclaim"`
	EvictionPressureTransitionPeriod string            `json:"evictionPressureTransitionPeriod"`
	EvictionMaxPodGracePeriod        int64             `json:"evictionMaxPodGracePeriod"`
	MergeDefaultEvictionSettings     bool              `json:"mergeDefaultEvictionSettings"`

	pinned

	ContainerLogMaxSize         string `json:"containerLogMaxSize"`
	ContainerLogMaxFiles        int    `json:"containerLogMaxFiles"`
	ContainerLogMonitorInterval string `json:"containerLogMonitorInterval"`

	RegisterWithTaints       []corev1.Taint `json:"registerWithTaints"`
	ContainerRuntimeEndpoint string         `json:"containerRuntimeEndpoint"`
}

// caching is how long answers of the API server are kept.
type caching struct {
	Enabled              *bool  `json:"enabled"`
	CacheTTL             string `json:"cacheTTL"`
	CacheAuthorizedTTL   string `json:"cacheAuthorizedTTL"`
	CacheUnauthorizedTTL string `json:"cacheUnauthorizedTTL"`
}

// Open reads the file at path.
func Open(path string) (*Config, error) {
	d, err := configfile.Open(path)
	if err != nil {
		return nil, err
	}
	rest, err := withoutDescribed(d)
	if err != nil {
		return nil, err
	}
	var f file
	if err := rest.As(configfile.Kinds{Group: "kubelet.config.k8s.io", Kind: "KubeletConfiguration", Versions: []string{"v1beta1"}}, &f); err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(d.JSON, &all); err != nil {
		return nil, d.Wrong("", err)
	}
	c := &Config{Fields: slices.Sorted(maps.Keys(all)), Endpoint: f.ContainerRuntimeEndpoint, RotateCertificates: f.RotateCertificates}
	r := reader{d: d, f: &f, c: c}
	r.host()
	r.server()
	r.upkeep()
	r.pinning()
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return c, nil
}

// withoutDescribed refuses what a node here does not do, and returns the rest of the file.
func withoutDescribed(d configfile.Document) (configfile.Document, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(d.JSON, &all); err != nil {
		return d, d.Wrong("", err)
	}
	known := described()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		about, ok := known[name]
		if !ok {
			continue
		}
		if !about.allows(all[name]) {
			errs = append(errs, d.Wrong(name, fmt.Errorf("%s: %s is not supported: %s", name, all[name], about.does)))
		}
		delete(all, name)
	}
	if len(errs) > 0 {
		return d, errors.Join(errs...)
	}
	var err error
	d.JSON, err = json.Marshal(all)
	return d, err
}

// reader turns a file into a Config and gathers what is wrong.
type reader struct {
	d    configfile.Document
	f    *file
	c    *Config
	errs []error
}

func (r *reader) wrong(name string, err error) {
	if err != nil {
		r.errs = append(r.errs, r.d.Wrong(name, fmt.Errorf("%s: %w", name, err)))
	}
}

// duration reads a duration; one that is left out is 0.
func (r *reader) duration(name, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("must not be negative")
	}
	r.wrong(name, err)
	return d
}

func (r *reader) host() {
	f, o := r.f, &r.c.Host
	o.StaticDir, o.LogDir, o.Taints = f.StaticPodPath, f.PodLogsDir, f.RegisterWithTaints
	if f.CgroupRoot != "" {
		o.CgroupRoot = path.Join("/", f.CgroupRoot, "kubepods")
	}
	o.DNS.Domain = f.ClusterDomain
	for i, text := range f.ClusterDNS {
		server, err := netip.ParseAddr(text)
		r.wrong("clusterDNS["+strconv.Itoa(i)+"]", err)
		o.DNS.Servers = append(o.DNS.Servers, server.Unmap())
	}
	if f.ResolvConf != nil {
		o.DNS.ResolvConf = *f.ResolvConf
		if o.DNS.ResolvConf == "" {
			o.DNS.ResolvConf = "/dev/null" // upstream's "" is no configuration
		}
	}
	if f.PodCIDR != "" {
		cidr, err := netip.ParsePrefix(f.PodCIDR)
		r.wrong("podCIDR", err)
		r.c.PodCIDRs = []netip.Prefix{cidr}
	}
	switch {
	case f.MaxPods < 0:
		r.wrong("maxPods", errors.New("must not be negative"))
	case f.MaxPods > 0:
		r.c.Capacity = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(f.MaxPods), resource.DecimalSI)}
	}
}

func (r *reader) server() {
	f := r.f
	r.c.Server = Server{
		Disabled: f.EnableServer != nil && !*f.EnableServer, Port: f.Port,
		ClientCA: f.Authentication.X509.ClientCAFile, Certificate: f.TLSCertFile, Key: f.TLSPrivateKeyFile, Bootstrap: f.ServerTLSBootstrap,
	}
	if f.Port == 0 {
		r.c.Server.Port = 10250
	}
	if f.Address != "" {
		var err error
		r.c.Server.Address, err = netip.ParseAddr(f.Address)
		r.wrong("address", err)
	}
	if (f.TLSCertFile == "") != (f.TLSPrivateKeyFile == "") {
		r.wrong("tlsCertFile", errors.New("goes together with tlsPrivateKeyFile"))
	}
	if f.Authentication.Anonymous.Enabled {
		r.wrong("authentication.anonymous.enabled", errors.New("true is not supported: the server lets nobody in whom it does not know"))
	}
	if w := f.Authentication.Webhook.Enabled; w != nil && !*w {
		r.wrong("authentication.webhook.enabled", errors.New("false is not supported: the API server is asked about tokens"))
	}
	if m := f.Authorization.Mode; m != "" && m != "Webhook" {
		r.wrong("authorization.mode", fmt.Errorf("%q is not supported: the API server is asked what clients may do (Webhook)", m))
	}
	for name, ttl := range map[string]string{
		"authentication.webhook.cacheTTL":            f.Authentication.Webhook.CacheTTL,
		"authorization.webhook.cacheAuthorizedTTL":   f.Authorization.Webhook.CacheAuthorizedTTL,
		"authorization.webhook.cacheUnauthorizedTTL": f.Authorization.Webhook.CacheUnauthorizedTTL,
	} {
		if r.duration(name, ttl) != 0 {
			r.wrong(name, errors.New("is not supported: how long answers of the API server are kept cannot be chosen"))
		}
	}
}

func (r *reader) upkeep() {
	f, u := r.f, &r.c.Host.Upkeep
	hard := f.EvictionHard
	if hard == nil || f.MergeDefaultEvictionSettings {
		hard = eviction.Default().Hard
		maps.Copy(hard, f.EvictionHard)
	}
	_, err := eviction.Parse(eviction.Config{Hard: hard})
	r.wrong("evictionHard", err)
	if err == nil {
		u.Thresholds, err = eviction.Parse(eviction.Config{
			Hard: hard, Soft: f.EvictionSoft, SoftGracePeriod: f.EvictionSoftGracePeriod, MinimumReclaim: f.EvictionMinimumReclaim,
		})
		r.wrong("evictionSoft", err)
	}
	u.Transition, u.MaxGrace = r.duration("evictionPressureTransitionPeriod", f.EvictionPressureTransitionPeriod), f.EvictionMaxPodGracePeriod
	images := garbage.ImagePolicy{High: 85, Low: 80, MinAge: 2 * time.Minute, MaxAge: r.duration("imageMaximumGCAge", f.ImageMaximumGCAge)} // upstream's defaults
	if age := r.duration("imageMinimumGCAge", f.ImageMinimumGCAge); age != 0 {
		images.MinAge = age
	}
	if f.ImageGCHighThresholdPercent != nil {
		images.High = *f.ImageGCHighThresholdPercent
	}
	if f.ImageGCLowThresholdPercent != nil {
		images.Low = *f.ImageGCLowThresholdPercent
	}
	u.Images = &images
	if images.Low >= images.High || images.Low < 0 || images.High > 100 {
		name := "imageGCHighThresholdPercent"
		if f.ImageGCHighThresholdPercent == nil {
			name = "imageGCLowThresholdPercent"
		}
		r.wrong(name, fmt.Errorf("imageGCHighThresholdPercent must be above imageGCLowThresholdPercent, both in the range 0-100: %d, %d", images.High, images.Low))
	}
	u.Logs.MaxFiles, u.Logs.Period = f.ContainerLogMaxFiles, r.duration("containerLogMonitorInterval", f.ContainerLogMonitorInterval)
	if f.ContainerLogMaxFiles < 0 || f.ContainerLogMaxFiles == 1 {
		r.wrong("containerLogMaxFiles", errors.New("must be greater than 1"))
	}
	if f.ContainerLogMaxSize != "" {
		size, err := boundedquantity.Parse(f.ContainerLogMaxSize)
		if err == nil && size.Value() <= 0 {
			err = errors.New("must be positive")
		}
		r.wrong("containerLogMaxSize", err)
		u.Logs.MaxSize = size.Value()
	}
}
