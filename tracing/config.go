package tracing

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/configfile"
)

// Error says where what is wrong with a file.
type Error = configfile.Error

// Config is a TracingConfiguration.
type Config struct {
	// Endpoint is where the collector listens, as gRPC names it; nil is localhost:4317.
	Endpoint *string `json:"endpoint,omitempty"`
	// SamplingRatePerMillion is how many traces in a million are sent that nobody else has begun; nil is none.
	SamplingRatePerMillion *int32 `json:"samplingRatePerMillion,omitempty"`
}

// Open reads the file of a TracingConfiguration, in YAML or JSON. What is wrong with it is told as an Error, or several.
func Open(path string) (Config, error) {
	d, err := configfile.Open(path)
	if err != nil {
		return Config{}, err
	}
	var file struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Config     `json:",inline"`
	}
	kinds := configfile.Kinds{Group: "apiserver.config.k8s.io", Kind: "TracingConfiguration", Versions: []string{"v1", "v1beta1", "v1alpha1"}}
	if err := d.As(kinds, &file); err != nil {
		return Config{}, err
	}
	return file.Config, d.Fields(file.validate(nil))
}

// millionth is the denominator of rates.
const millionth = 1000000

// validate returns what is wrong, in upstream's words. The fields are those at the path, which may be nil.
func (c Config) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if rate := c.SamplingRatePerMillion; rate != nil {
		name := at.Child("samplingRatePerMillion")
		switch {
		case *rate < 0:
			errs = append(errs, field.Invalid(name, *rate, "sampling rate must be positive"))
		case *rate > millionth:
			errs = append(errs, field.Invalid(name, *rate, "sampling rate per million must be less than or equal to one million"))
		}
	}
	if c.Endpoint == nil {
		return errs
	}
	name, endpoint := at.Child("endpoint"), *c.Endpoint
	if !strings.Contains(endpoint, "//") {
		endpoint = "dns://" + endpoint
	}
	switch to, err := url.Parse(endpoint); {
	case err != nil:
		errs = append(errs, field.Invalid(name, endpoint, err.Error()))
	case to.Scheme != "dns" && to.Scheme != "unix" && to.Scheme != "unix-abstract":
		errs = append(errs, field.Invalid(name, endpoint, fmt.Sprintf(
			"unsupported scheme: %v.  Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md", to.Scheme)))
	}
	return errs
}
