package admissionconfig

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/initialresources"
	"github.com/keelson-dev/keelson/admission/initialresources/prometheus"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/configfile"
)

// initialResources reads a form of our own, which has no version: upstream's plugin had flags.
func initialResources(d configfile.Document) (cluster.AdmissionStage, error) {
	var c struct {
		InitialResources struct {
			// PrometheusConfigFile is a kubeconfig file that leads to a Prometheus server.
			PrometheusConfigFile string `json:"prometheusConfigFile"`
			Percentile           int    `json:"percentile"`
			NamespaceOnly        bool   `json:"namespaceOnly"`
		} `json:"initialResources"`
	}
	none := cluster.AdmissionStage{}
	if err := d.As(configfile.Kinds{}, &c); err != nil {
		return none, err
	}
	own := c.InitialResources
	wrong := func(name string, err error) (cluster.AdmissionStage, error) {
		at := field.NewPath("initialResources", name)
		return none, d.Wrong(at.String(), fmt.Errorf("%s: %w", at, err))
	}
	o := initialresources.Options{Percentile: own.Percentile, NamespaceOnly: own.NamespaceOnly}
	if _, err := initialresources.New(nil, o); err != nil {
		return wrong("percentile", err)
	}
	const file = "prometheusConfigFile"
	if own.PrometheusConfigFile == "" {
		return wrong(file, errors.New("is required: it is a kubeconfig file that leads to a Prometheus server"))
	}
	access, err := kubeconfig.Load(kubeconfig.Options{Path: d.Beside(own.PrometheusConfigFile)})
	if err != nil {
		return wrong(file, err)
	}
	transport, err := rest.TransportFor(access.Config)
	if err != nil {
		return wrong(file, err)
	}
	history, err := prometheus.New(access.Config.Host, prometheus.Options{Transport: transport})
	if err != nil {
		return wrong(file, err)
	}
	return cluster.AdmissionStage{Name: initialresources.Name, New: func(p cluster.ServerParts) (admission.Plugin, error) {
		o.Logger = p.Logger
		return initialresources.New(history, o)
	}}, nil
}

// unmeasured is InitialResources without a configuration, which cannot be made.
func unmeasured() cluster.AdmissionStage {
	return cluster.AdmissionStage{Name: initialresources.Name, New: func(cluster.ServerParts) (admission.Plugin, error) {
		return nil, errors.New("InitialResources: no config specified")
	}}
}
