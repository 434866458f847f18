package customresources_test

import "fmt"

const group = "diff.example.com"

// definition is a definition and what its requests need to know.
type definition struct {
	object     m
	plural     string
	kind       string
	namespaced bool
	versions   []string // those that are served
	status     bool
	scale      bool
	selectable []string
}

// schemaOf returns the schema of a version.
func (d *definition) schemaOf(version string) m {
	for _, v := range d.object["spec"].(m)["versions"].(l) {
		if v := v.(m); v["name"] == version {
			return v["schema"].(m)["openAPIV3Schema"].(m)
		}
	}
	return nil
}

// marker is the property that tells which state of a definition is served.
const marker = "marker"

func mark(generation int) m {
	return m{"type": "string", "enum": l{fmt.Sprint("generation-", generation)}}
}

// define returns a random definition.
func define(r random, plural string) *definition {
	g := newSchemas(r)
	d := &definition{plural: plural, kind: "K" + plural, namespaced: r.chance(0.7), status: r.chance(0.6), scale: r.chance(0.4)}
	root := g.root(d.scale)
	names := some(r, one(r, 1, 1, 2, 3), "v1", "v1beta1", "v2alpha1")
	stored := r.IntN(len(names))
	var versions l
	for i, name := range names {
		schema := clone(root)
		if i > 0 && r.chance(0.4) { // versions may differ
			g.tighten(schema)
		}
		v := m{"name": name, "served": i == stored || r.chance(0.9), "storage": i == stored, "schema": m{"openAPIV3Schema": schema}}
		if v["served"] == true {
			d.versions = append(d.versions, name)
		}
		if r.chance(0.15) {
			v["deprecated"] = true
			if r.chance(0.5) {
				v["deprecationWarning"] = one(r, "use another", "bad \"quotes\"")
			}
		}
		d.addSubresources(r, v)
		d.addColumns(r, v, schema)
		versions = append(versions, v)
	}
	scope := "Cluster"
	if d.namespaced {
		scope = "Namespaced"
	}
	n := m{"plural": plural, "kind": d.kind}
	if r.chance(0.5) {
		n["singular"], n["listKind"], n["categories"] = "s"+plural, "L"+plural, l{"all"}
	}
	d.object = m{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": m{"name": plural + "." + group},
		"spec": m{"group": group, "scope": scope, "names": n, "versions": versions},
	}
	if r.chance(0.2) {
		d.object["spec"].(m)["conversion"] = m{"strategy": "None"}
	}
	return d
}

func (g *schemas) root(scale bool) m {
	spec, status := g.object(3), g.object(2)
	if scale {
		spec = m{"type": "object", "properties": m{"replicas": m{"type": "integer"}, "a": g.schema(3), "b": g.schema(2)}}
		status = m{"type": "object", "properties": m{"replicas": m{"type": "integer"}, "selector": m{"type": "string"}, "b": g.schema(2)}}
	}
	root := m{"type": "object", "properties": m{marker: mark(1), "spec": spec, "status": status}}
	if g.chance(0.5) {
		root["properties"].(m)["data"] = g.schema(3)
	}
	if g.chance(0.15) {
		root["required"] = l{"spec"}
	}
	if g.chance(0.1) {
		root["x-kubernetes-preserve-unknown-fields"] = true
	}
	if g.chance(g.rules) {
		root["x-kubernetes-validations"] = l{g.rule("root", root)}
	}
	if g.chance(0.1) {
		root["properties"].(m)["metadata"] = m{"type": "object", "properties": m{"name": m{"type": "string", "maxLength": 40, "pattern": "^[a-z]"}}}
	}
	if g.chance(0.1) {
		root["properties"].(m)["apiVersion"], root["properties"].(m)["kind"] = m{"type": "string"}, m{"type": "string"}
	}
	return root
}

func (d *definition) addSubresources(r random, v m) {
	sub := m{}
	if d.status {
		sub["status"] = m{}
	}
	if d.scale {
		scale := m{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
		if r.chance(0.6) {
			scale["labelSelectorPath"] = ".status.selector"
		}
		sub["scale"] = scale
	}
	if len(sub) > 0 {
		v["subresources"] = sub
	}
}

// addColumns adds printer columns and selectable fields.
func (d *definition) addColumns(r random, v, schema m) {
	if r.chance(0.4) {
		var columns l
		for range 1 + r.IntN(3) {
			c := m{"name": one(r, "A", "B", "Some Column"), "type": one(r, "string", "integer", "number", "boolean", "date"), "jsonPath": one(r,
				".spec.a", ".spec.b", ".spec.replicas", ".metadata.name", ".spec.a[0]", ".spec.a[*].a", ".status", ".metadata.labels", ".spec['x-y']", ".data")}
			if r.chance(0.3) {
				c["priority"], c["format"], c["description"] = r.IntN(2), one(r, "int32", "date", "float", "double", "byte", "password"), "words"
			}
			columns = append(columns, c)
		}
		v["additionalPrinterColumns"] = columns
	}
	spec, _ := schema["properties"].(m)["spec"].(m)
	properties, _ := spec["properties"].(m)
	for _, k := range keys(properties) {
		p, _ := properties[k].(m)
		if t := p["type"]; (t == "string" || t == "integer" || t == "boolean") && r.chance(0.25) && len(d.selectable) < 3 {
			path := ".spec." + k
			fields, _ := v["selectableFields"].(l)
			v["selectableFields"] = append(fields, m{"jsonPath": path})
			d.selectable = append(d.selectable, path[1:])
		}
	}
}

// oddDefinition changes a definition so that it may be invalid.
func oddDefinition(r random, d *definition) {
	spec := d.object["spec"].(m)
	versions := spec["versions"].(l)
	v := one(r, versions...).(m)
	if r.chance(0.7) {
		for range 1 + r.IntN(2) {
			newSchemas(r).odd(v["schema"].(m)["openAPIV3Schema"].(m))
		}
		return
	}
	n := spec["names"].(m)
	switch r.IntN(24) {
	case 0:
		spec["scope"] = one[any](r, "Other", "", nil, 5)
	case 1:
		n["kind"] = one(r, "lower", "With-Dash", "", "With.Dot", "K K")
	case 2:
		n["singular"], n["shortNames"] = one(r, "Bad_Name", "a", d.plural), l{one(r, "a", "Bad_", d.plural)}
	case 3:
		n["plural"] = one(r, "other", "Bad_", "")
	case 4:
		spec["versions"] = append(versions, clone(v))
	case 5:
		v["storage"] = !(v["storage"].(bool))
	case 6:
		v["served"] = false
	case 7:
		v["name"] = one(r, "V1", "1", "", "v1.2")
	case 8:
		spec["group"] = one(r, "other.example.com", "nodots", "", "apps.k8s.io", "Bad_.com")
	case 9:
		spec["preserveUnknownFields"] = true
	case 10:
		spec["conversion"] = one[any](r, m{"strategy": "Webhook"}, m{"strategy": "Other"}, m{}, m{"strategy": "None", "webhook": m{"conversionReviewVersions": l{"v1"}}},
			m{"strategy": "Webhook", "webhook": m{"conversionReviewVersions": l{"v9"}, "clientConfig": m{"url": "http://x"}}},
			m{"strategy": "Webhook", "webhook": m{"conversionReviewVersions": l{"v1", "v1"}, "clientConfig": m{"url": "https://x", "service": m{"name": "a", "namespace": "b"}}}},
			m{"strategy": "Webhook", "webhook": m{"conversionReviewVersions": l{"v1"}, "clientConfig": m{"service": m{"name": "", "namespace": "b", "port": 99999, "path": "x"}}}},
			m{"strategy": "Webhook", "webhook": m{"conversionReviewVersions": l{}, "clientConfig": m{"url": "https://x", "caBundle": "eHg="}}})
	case 11:
		v["subresources"] = one[any](r, m{"scale": m{}}, m{"scale": m{"specReplicasPath": "spec.x", "statusReplicasPath": ".spec.y", "labelSelectorPath": ".x"}},
			m{"scale": m{"specReplicasPath": ".spec.x[0]", "statusReplicasPath": ".status.a"}}, m{"status": m{"x": 1}}, m{"other": m{}}, m{})
	case 12:
		v["additionalPrinterColumns"] = l{one(r, m{"name": "", "type": "string", "jsonPath": ".a"}, m{"name": "x", "type": "other", "jsonPath": ".a"},
			m{"name": "x", "type": "string", "jsonPath": "a"}, m{"name": "x", "type": "string", "jsonPath": ".a["}, m{"name": "x", "type": "string"}, m{"name": "x", "type": "string", "format": "other", "jsonPath": ".a"})}
	case 13:
		v["selectableFields"] = l{m{"jsonPath": one(r, ".spec", ".zz", "spec.a", ".metadata.name", ".spec.a[0]", "", ".spec['a']", ".marker", ".apiVersion", ".status")}, m{"jsonPath": ".marker"}}
	case 14:
		v["selectableFields"] = l{m{"jsonPath": ".marker"}, m{"jsonPath": ".marker"}}
	case 15:
		delete(v, one(r, "schema", "served", "storage", "name"))
	case 16:
		v["deprecationWarning"] = one(r, "not deprecated", "")
	case 17:
		d.object["metadata"].(m)["name"] = one(r, "other."+group, "x", d.plural, "")
	case 18:
		d.object["metadata"].(m)["annotations"] = m{"api-approved.kubernetes.io": one(r, "https://x", "unapproved", "")}
		spec["group"] = "x.k8s.io"
	case 19:
		spec["versions"] = one[any](r, l{}, nil, "x")
	case 20:
		v["schema"] = one[any](r, m{}, m{"openAPIV3Schema": m{}}, m{"openAPIV3Schema": m{"type": "string"}}, m{"openAPIV3Schema": m{"type": "object", "nullable": true}}, m{"openAPIV3Schema": m{"x-kubernetes-preserve-unknown-fields": true}},
			m{"openAPIV3Schema": m{"type": "object", "description": "x", "additionalProperties": m{"type": "string"}}}, m{"openAPIV3Schema": m{"type": "object", "default": m{"a": 1}, "properties": m{"a": m{"type": "integer"}}}})
	case 21:
		n["categories"], n["listKind"] = l{one(r, "All", "a b", "")}, one(r, "x", "Bad_", n["kind"].(string))
	case 22:
		r.mutate(d.object)
	default:
		r.mutate(spec)
	}
}
