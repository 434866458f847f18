package schedulerconfig

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/configfile"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/extender"
)

// Error says what is wrong with a file: its Path, Line and Err.
type Error = configfile.Error

// Config is what a file says.
type Config struct {
	// Profiles are the profiles, with different scheduler names. They lack what a file does not say: the client of
	// plugins.DefaultBinder, which comes last, and what plugins read (plugins.WithVolumes, WithGroups, WithBudgets).
	Profiles []scheduler.Profile
	// InitialBackoff, MaxBackoff and Writes are those of scheduler.Options.
	InitialBackoff, MaxBackoff time.Duration
	Writes                     int
	// BindTimeout is that of volumes.Options; 0 if the file does not say it.
	BindTimeout time.Duration
	// DeviceFindTimeout and DeviceBindTimeout are FindTimeout and BindTimeout of devices.Options; 0 if the file does not say
	// them.
	DeviceFindTimeout, DeviceBindTimeout time.Duration
	Election                             Election
	Client                               Connection
}

// Election is how one of several processes is chosen to work.
type Election struct {
	Enabled bool // the process works only while it holds the Lease
	// Explicit means that the file says whether it is enabled.
	Explicit bool
	// LeaseDuration, RenewDeadline and RetryPeriod are those of leaderelection.Options.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Namespace and Name are those of the Lease.
	Namespace, Name string
}

// Connection is the way to the API server.
type Connection struct {
	Kubeconfig string // the path of a file; empty if the file does not say it
	// QPS and Burst limit the requests per second, in the long run and at once.
	QPS   float32
	Burst int
}

// Options are the options of Open and OpenPolicy. The zero value is valid.
type Options struct {
	// Plugins are plugins of your own, which a file may name, without arguments, beside upstream's.
	Plugins []scheduler.Plugin
}

// reader turns a file into a Config and gathers what is wrong.
type reader struct {
	d    configfile.Document
	o    Options
	c    *Config
	errs []error

	extenders []*extender.Extender
	ignored   []string // resources that NodeResourcesFit leaves to extenders
}

func (r *reader) wrong(errs ...*field.Error) {
	for _, err := range errs {
		r.errs = append(r.errs, r.d.Wrong(err.Field, err))
	}
}

// refuse refuses what a scheduler here would not do.
func (r *reader) refuse(at *field.Path, format string, args ...any) {
	r.errs = append(r.errs, r.d.Wrong(at.String(), fmt.Errorf("%s: "+format, append([]any{at}, args...)...)))
}

// Open reads the KubeSchedulerConfiguration at path.
func Open(path string, o Options) (*Config, error) {
	d, err := configfile.Open(path)
	if err != nil {
		return nil, err
	}
	var f file
	if err := d.As(configfile.Kinds{Group: "kubescheduler.config.k8s.io", Kind: "KubeSchedulerConfiguration", Versions: []string{"v1"}}, &f); err != nil {
		return nil, err
	}
	r := newReader(d, o)
	r.read(&f)
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return r.c, nil
}

// Default returns what a file says that leaves everything out.
func Default() *Config {
	r := newReader(configfile.Document{}, Options{})
	r.read(&file{}) // nothing can be wrong
	return r.c
}

func newReader(d configfile.Document, o Options) *reader {
	return &reader{d: d, o: o, c: &Config{Writes: 16, InitialBackoff: time.Second, MaxBackoff: 10 * time.Second}}
}

func (r *reader) read(f *file) {
	r.client(&f.ClientConnection)
	r.election(&f.LeaderElection)
	r.process(f)
	r.extend(f.Extenders, field.NewPath("extenders"))
	r.profiles(f.Profiles)
}

func (r *reader) client(f *connection) {
	at := field.NewPath("clientConnection")
	r.c.Client = Connection{Kubeconfig: f.Kubeconfig, QPS: 50, Burst: 100}
	if f.QPS != 0 {
		r.c.Client.QPS = f.QPS
	}
	if f.Burst != 0 {
		r.c.Client.Burst = int(f.Burst)
	}
	if f.Burst < 0 {
		r.wrong(field.Invalid(at.Child("burst"), f.Burst, "must be non-negative"))
	}
	if f.ContentType != "" && f.ContentType != "application/vnd.kubernetes.protobuf" {
		r.refuse(at.Child("contentType"), "%q is not supported: objects are transferred as application/vnd.kubernetes.protobuf", f.ContentType)
	}
	if f.AcceptContentTypes != "" {
		r.refuse(at.Child("acceptContentTypes"), "is not supported: objects are transferred as application/vnd.kubernetes.protobuf")
	}
}

func (r *reader) election(f *election) {
	at := field.NewPath("leaderElection")
	e := &r.c.Election
	*e = Election{
		Enabled: f.LeaderElect == nil || *f.LeaderElect, Explicit: f.LeaderElect != nil,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Namespace: "kube-system", Name: "kube-scheduler",
	}
	for _, one := range []struct {
		name string
		from time.Duration
		to   *time.Duration
	}{
		{"leaseDuration", f.LeaseDuration.Duration, &e.LeaseDuration},
		{"renewDeadline", f.RenewDeadline.Duration, &e.RenewDeadline},
		{"retryPeriod", f.RetryPeriod.Duration, &e.RetryPeriod},
	} {
		if one.from != 0 {
			*one.to = one.from
		}
		if e.Enabled && one.from < 0 {
			r.wrong(field.Invalid(at.Child(one.name), metav1.Duration{Duration: one.from}, "must be greater than zero"))
		}
	}
	if f.ResourceName != "" {
		e.Name = f.ResourceName
	}
	if f.ResourceNamespace != "" {
		e.Namespace = f.ResourceNamespace
	}
	if !e.Enabled {
		return
	}
	if e.LeaseDuration <= e.RenewDeadline {
		r.wrong(field.Invalid(at.Child("leaseDuration"), metav1.Duration{Duration: e.RenewDeadline}, "must be greater than `RenewDeadline`"))
	}
	if f.ResourceLock != "" && f.ResourceLock != "leases" {
		r.wrong(field.Invalid(at.Child("resourceLock"), f.ResourceLock, `resourceLock value must be "leases"`))
	}
}

// process reads what concerns all profiles.
func (r *reader) process(f *file) {
	if f.Parallelism != nil {
		r.c.Writes = int(*f.Parallelism)
	}
	if r.c.Writes <= 0 {
		r.wrong(field.Invalid(field.NewPath("parallelism"), r.c.Writes, "should be an integer value greater than zero"))
	}
	r.percentage(field.NewPath("percentageOfNodesToScore"), f.PercentageOfNodesToScore)
	initial, most := int64(1), int64(10)
	if f.PodInitialBackoffSeconds != nil {
		initial = *f.PodInitialBackoffSeconds
	}
	if f.PodMaxBackoffSeconds != nil {
		most = *f.PodMaxBackoffSeconds
	}
	if initial <= 0 {
		r.wrong(field.Invalid(field.NewPath("podInitialBackoffSeconds"), initial, "must be greater than 0"))
	}
	if most < initial {
		r.wrong(field.Invalid(field.NewPath("podMaxBackoffSeconds"), most, "must be greater than or equal to PodInitialBackoffSeconds"))
	}
	if longest := int64(24 * 60 * 60); most > longest {
		r.refuse(field.NewPath("podMaxBackoffSeconds"), "%d is not supported: a day is the longest, %d", most, longest)
	}
	r.c.InitialBackoff, r.c.MaxBackoff = time.Duration(initial)*time.Second, time.Duration(most)*time.Second
	if f.DelayCacheUntilActive != nil && !*f.DelayCacheUntilActive {
		r.refuse(field.NewPath("delayCacheUntilActive"), "false is not supported: only the process that holds the lease watches the cluster (true)")
	}
	for name, set := range map[string]*bool{"enableProfiling": f.EnableProfiling, "enableContentionProfiling": f.EnableContentionProfiling} {
		if set != nil && *set {
			r.refuse(field.NewPath(name), "true is not supported: profiles of the program are not served")
		}
	}
}

func (r *reader) percentage(at *field.Path, n *int32) {
	switch {
	case n == nil || *n == 0 || *n == 100:
	case *n < 0 || *n > 100:
		r.wrong(field.Invalid(at, *n, "not in valid range [0-100]"))
	default:
		r.refuse(at, "%d is not supported: all nodes are considered for every pod (100)", *n)
	}
}

func (r *reader) profiles(all []profile) {
	if len(all) == 0 {
		all = []profile{{}}
	}
	at := field.NewPath("profiles")
	known := map[string]int{}
	for i := range all {
		p, path := &all[i], at.Index(i)
		name := ""
		switch {
		case p.SchedulerName != nil:
			name = *p.SchedulerName
		case len(all) == 1:
			name = corev1.DefaultSchedulerName
		}
		if name == "" {
			r.wrong(field.Required(path.Child("schedulerName"), ""))
		}
		r.percentage(path.Child("percentageOfNodesToScore"), p.PercentageOfNodesToScore)
		r.profile(p, name, path)
		if first, ok := known[name]; ok {
			r.wrong(field.Duplicate(path.Child("schedulerName"), at.Index(first).Child("schedulerName")))
		}
		known[name] = i
	}
}

// profile adds a profile.
func (r *reader) profile(p *profile, name string, at *field.Path) {
	before := len(r.errs)
	configured := r.plugins(p.PluginConfig, at.Child("pluginConfig"))
	points := r.points(&p.Plugins, at.Child("plugins"))
	if len(r.errs) > before {
		return
	}
	list := r.enabled(points, configured, at.Child("plugins"))
	for _, e := range r.extenders {
		list = append(list, scheduler.Enabled{Plugin: e, Weight: e.Weight()})
	}
	r.c.Profiles = append(r.c.Profiles, scheduler.Profile{SchedulerName: name, Plugins: slices.Clip(list)})
}
