package customresources_test

import "strings"

// stock are rules by the type they are about. Some break, some do not compile, some cost too much.
var stock = map[string][]string{
	"string": {
		"self.size() < 5", "self.startsWith('a')", "self == oldSelf", "self != 'zzz'", "self.matches('^[a-z]+$')", "self.lowerAscii() == self",
		"self.split(',').size() < 3", "self.contains('a') || self.size() > 1", "isURL(self) || true", "quantity(self).isGreaterThan(quantity('1'))", "int(self) > 3",
		"self + 1 > 2", "self ==", "self.nope()", "!ip.isCanonical(self) || true", "format.dns1123Label().validate(self).hasValue()", "self in ['a','b','abc']",
		"self.find('[0-9]+') != ''", "self.replace('a', 'b').size() > 0", "self.charAt(0) == 'a'", "oldSelf.size() <= self.size()", "semver(self).major() == 1", "duration(self) > duration('1m')",
		"self > 'a'", "self.indexOf('b') < 2", "self.reverse() != self", "isCIDR(self)", "isQuantity(self)",
	},
	"integer": {
		"self > 3", "self % 2 == 0", "self >= oldSelf", "10 / self > 1", "self < 10 && self != 7", "self + 1", "self == 1.0", "self in [1,2,3]", "string(self).size() < 2",
		"self < 2.5", "self * 9223372036854775807 > 0", "[self, 3].max() == 3", "oldSelf != 1",
	},
	"number":  {"self < 2.5", "self > 1", "self >= oldSelf", "self == 1.0", "double(int(self)) == self", "self < 10.0", "math.ceil(self) > 1.0"},
	"boolean": {"self", "!self", "self || !oldSelf", "self == true", "self ? true : false", "self > 1", "type(self) == bool"},
	"array": {
		"self.size() > 0", "self.size() < 3", "self == oldSelf", "oldSelf.all(x, x in self)", "self.all(x, self.exists_one(y, y == x))", "self.isSorted()", "self.exists(x, x == 'a')",
		"self.all(x, has(x.a))", "self.map(x, x).size() < 4", "self.filter(x, true).size() == self.size()", "self[0] == self[0]", "self.all(x, x != 'zzz')", "self.all(x, x > 1)", "self.sum() < 10",
		"self.all(x, self.all(y, self.all(z, x == y || y == z || x != z)))", "self.indexOf('a') < 2", "self.all(i, x, i < 3)", "self.distinct().size() == self.size()", "sets.contains(self, self)",
		"self.flatten().size() < 9", "self + oldSelf != []",
	},
	"map": {
		"self.size() < 3", "self.all(k, k.startsWith('a'))", "self.all(k, self[k] == self[k])", "self == oldSelf", "oldSelf.all(k, k in self)", "self.exists(k, k == 'key')", "!('b' in self)", "'a' in self",
		"self.map(k, k).size() > 0", "self.a == self.a", "self.all(k, v, k != 'b')", "self.transformMap(k, v, k).size() < 3", "cel.bind(n, self.size(), n < 4)",
	},
	"object": {
		"has(self.a)", "!has(self.a) || has(self.b)", "has(self.x__dash__y)", "has(self.__if__)", "has(self.my__dot__dot)", "has(self.name) || has(self.size)", "self == oldSelf", "self.a == 'a'", "self.b > 1", "has(self.zz)",
		"!has(oldSelf.a) || has(self.a)", "self.a == oldSelf.a", "self.?a.orValue('x') != 'zzz'", "self.?a.hasValue() == has(self.a)", "self.c.size() < 3", "has(self.__u)", "has(self.if)", "self.size > 1", "true", "false",
		"!has(self.a) || self.a == self.a", "has(self.replicas) && self.replicas < 5", "1 == 1 || has(self.d)", "1", "'a' in self",
	},
	"root": {
		"self.metadata.name != 'x'", "self.metadata.name.size() < 20", "has(self.spec)", "self.kind != ''", "self.apiVersion.startsWith('diff')", "has(self.metadata.labels)", "self.metadata.generateName == ''",
		"!has(self.status) || true", "self.spec == oldSelf.spec", "has(self.metadata.name)",
	},
	"resource": {"self.kind == 'ConfigMap'", "self.metadata.name == 'inner'", "has(self.a)", "self.apiVersion == 'v1'"},
	"either":   {"type(self) == int || self != ''", "type(self) == string ? self.size() < 5 : self < 50", "self == oldSelf", "self > 5", "self == 5"},
	"other":    {"self == oldSelf", "true", "has(self.a)", "type(self) == string"},
}

// kindOf returns the rules' name for what a schema is about.
func kindOf(s m) string {
	switch {
	case s["x-kubernetes-embedded-resource"] == true:
		return "resource"
	case s["x-kubernetes-int-or-string"] == true:
		return "either"
	case s["type"] == "object" && s["additionalProperties"] != nil:
		return "map"
	}
	if kind, ok := s["type"].(string); ok && stock[kind] != nil {
		return kind
	}
	return "other"
}

// rulesFor returns rules about a schema.
func (g *schemas) rulesFor(s m) l {
	var all l
	for range 1 + g.IntN(2) {
		all = append(all, g.rule(kindOf(s), s))
	}
	return all
}

func (g *schemas) rule(kind string, s m) m {
	expression := one(g.random, stock[kind]...)
	if properties, ok := s["properties"].(m); ok && kind == "object" && g.chance(0.5) {
		// About a property, by a rule for its type.
		k := one(g.random, keys(properties)...)
		escaped := map[string]string{"x-y": "x__dash__y", "if": "__if__", "my.dot": "my__dot__dot", "__u": "__underscores__u"}[k]
		if escaped == "" {
			escaped = k
		}
		if p, ok := properties[k].(m); ok {
			inner := one(g.random, stock[kindOf(p)]...)
			if !strings.Contains(inner, "oldSelf") && !strings.Contains(inner, "self,") {
				expression = "!has(self." + escaped + ") || " + strings.ReplaceAll(inner, "self", "self."+escaped)
			}
		}
	}
	rule := m{"rule": expression}
	if g.chance(0.5) {
		rule["message"] = one(g.random, "must be so", "words: more, words", "", " spaces ")
	}
	if g.chance(0.03) {
		rule["message"] = "two\nlines"
	}
	if g.chance(0.2) {
		rule["messageExpression"] = one(g.random, "'it is ' + string(self)", "'fixed'", "''", "1", "'a' +", "'size ' + string(self.size())", "self", "'two\\nlines'", "'x' + string(1/0)", "'old ' + string(oldSelf)", "'  '")
	}
	if g.chance(0.2) {
		rule["reason"] = one(g.random, "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate", "Other")
	}
	if g.chance(0.15) {
		rule["fieldPath"] = one(g.random, ".a", ".b", ".name", "['a']", ".nope", "a", ".a[0]", ".['x-y']", ".my.dot", "", ".spec", ".metadata.name")
	}
	if g.chance(0.25) && strings.Contains(expression, "oldSelf") {
		rule["optionalOldSelf"] = one(g.random, true, true, false)
		if rule["optionalOldSelf"] == true && g.chance(0.8) {
			rule["rule"] = "!oldSelf.hasValue() || " + strings.ReplaceAll(expression, "oldSelf", "oldSelf.value()")
		}
	} else if g.chance(0.02) {
		rule["optionalOldSelf"] = true
	}
	return rule
}
